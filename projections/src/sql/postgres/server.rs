//! The views on a server: connections on loan, a few that read and a few that fold.

use std::{sync::Arc, time::Duration};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use reenact_events::{LogId, Offset};
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::runtime::Handle;
use tokio_postgres::NoTls;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    Names, Postgres,
    address::{self, CONNECT_WITHIN, PostgresAddress},
    dialect, schema,
    turns::{Turn, Turns},
    view_error,
};
use crate::{Position, ViewError, sql::database::Database};

/// Connections that read side by side.
const READERS: usize = 8;
/// Connections that fold side by side, each a partition.
const WRITERS: usize = 4;
/// How long a connection that is free is waited for.
const FREE_WITHIN: Duration = Duration::from_secs(30);

/// A server with its connections. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    names: Arc<Names>,
    readers: Pool,
    writers: Pool,
    turns: Arc<Turns>,
}

impl Server {
    /// Connects, and brings the schema to where it should be; the answer has where each partition stands.
    pub(crate) async fn open(
        address: &PostgresAddress,
        log_id: LogId,
        partitions: u32,
    ) -> Result<(Self, Vec<Offset>), ViewError> {
        let server = Self::look(address)?;
        let nexts = server.on(&server.writers, move |postgres| schema::prepare(postgres, log_id, partitions)).await?;
        Ok((server, nexts))
    }

    /// The server as it is: nothing is made or brought up to date.
    pub(crate) fn look(address: &PostgresAddress) -> Result<Self, ViewError> {
        let names = address::shared(address);
        let pool = |connections| pool(address, &names, connections);
        let (readers, writers, turns) = (pool(READERS)?, pool(WRITERS)?, pool(1)?);
        let turns = Arc::new(Turns::new(turns, names.clone()));
        Ok(Self { names, readers, writers, turns })
    }

    /// What errors call it.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The advisory lock of one thing of this schema.
    pub(crate) fn lock(&self, what: &str) -> i64 {
        self.names.lock(what)
    }

    /// A connection for one long piece of work, on the blocking thread that calls this. It ends, with all that it
    /// has locked, when this server and the connection are dropped.
    pub(crate) fn connection(&self, runtime: &Handle) -> Result<Postgres, ViewError> {
        let client = runtime.block_on(take(&self.writers, &self.names))?;
        Ok(Postgres::new(client, runtime.clone(), self.names.clone()))
    }

    /// Does `work` with a connection of the pool, and once more when its statements turned out to be of tables that
    /// others stand in the place of.
    async fn on<T: Send + 'static>(
        &self,
        pool: &Pool,
        work: impl Fn(&Postgres) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        let client = take(pool, &self.names).await?;
        let (names, runtime) = (self.names.clone(), Handle::current());
        let done = tokio::task::spawn_blocking(move || {
            let postgres = Postgres::new(client, runtime, names);
            let answer = work(&postgres);
            if answer.is_err() && postgres.forget_what_is_stale() { work(&postgres) } else { answer }
        });
        done.await.map_err(|_| ViewError::Closed)?
    }

    /// Does `work` with a connection that reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        self.on(&self.readers, move |postgres| work(Database::Postgres(postgres))).await
    }

    /// Does `work` with a connection that folds.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        self.on(&self.writers, move |postgres| work(Database::Postgres(postgres))).await
    }

    /// Empties the tables: see [`schema::empty`].
    pub(crate) async fn empty(&self, expected: Option<Position>) -> Result<bool, ViewError> {
        self.on(&self.writers, move |postgres| schema::empty(postgres, expected)).await
    }

    /// The right to do something, if nobody has it.
    pub(crate) async fn turn(&self, what: &str) -> Result<Option<Turn>, ViewError> {
        self.turns.take(what).await
    }
}

impl PostgresAddress {
    /// Connects, and says which version the server has. Nothing is made.
    ///
    /// # Errors
    /// When it does not answer or lets us not in.
    pub async fn server_version(&self) -> Result<String, ViewError> {
        let names = address::shared(self);
        let client = take(&pool(self, &names, 1)?, &names).await?;
        let told = client.query_one("SHOW server_version", &[]).await.and_then(|row| row.try_get(0));
        told.map_err(|error| view_error(&names.database, &error))
    }
}

/// A connection of the pool.
pub(super) async fn take(pool: &Pool, names: &Names) -> Result<Object, ViewError> {
    let unavailable =
        |reason: String| ViewError::Unavailable { database: names.database.clone(), reason: reason.into() };
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            view_error(&names.database, &error)
        }
        PoolError::Timeout(_) => unavailable("no connection could be had in time".to_owned()),
        PoolError::Closed => ViewError::Closed,
        other => unavailable(other.to_string()),
    })
}

fn pool(address: &PostgresAddress, names: &Arc<Names>, connections: usize) -> Result<Pool, ViewError> {
    let unusable = |reason: String| ViewError::Unusable { database: names.database.clone(), reason: reason.into() };
    let config = address.config.clone();
    let recycled = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = if address.is_encrypted() {
        let tls = rustls::ClientConfig::with_platform_verifier().map_err(|error| unusable(error.to_string()))?;
        Manager::from_config(config, MakeRustlsConnect::new(tls), recycled)
    } else {
        Manager::from_config(config, NoTls, recycled)
    };
    let search_path: Arc<str> = format!("SET search_path TO {}", dialect::quoted(&address.schema)).into();
    let begin = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let search_path = search_path.clone();
        Box::pin(async move { client.batch_execute(&search_path).await.map_err(HookError::Backend) })
    });
    let timeouts =
        Timeouts { wait: Some(FREE_WITHIN), create: Some(2 * CONNECT_WITHIN), recycle: Some(CONNECT_WITHIN) };
    let pool = Pool::builder(manager).max_size(connections).runtime(Runtime::Tokio1).timeouts(timeouts);
    pool.post_create(begin).build().map_err(|error| unusable(error.to_string()))
}
