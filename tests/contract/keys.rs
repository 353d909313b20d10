//! The contract of the tables of keys: one suite for the file of one node and for the database that nodes share.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures::future::join_all;
use reenact_events::{
    LogId, NodeId, UserId,
    keys::{KeptKey, KeptReport, KeyError, KeyTable, Known, Scrubs},
};
use reenact_projections::{PostgresAddress, PostgresKeys};
use reenact_sealed::SqliteKeys;
use reenact_tests::postgres;
use tempfile::TempDir;
use uuid::Uuid;

const LOG: LogId = LogId(Uuid::from_u128(1));

/// Where a table is.
trait Place: Sized {
    /// Whether processes share it, so that a turn is one's.
    const IS_SHARED: bool;

    /// One where no table is yet.
    fn new() -> Self;

    /// The table of a log, as a further process has it.
    async fn table(&self, log: LogId) -> Result<Arc<dyn KeyTable>, KeyError>;
}

struct File(TempDir);

impl Place for File {
    const IS_SHARED: bool = false;

    fn new() -> Self {
        Self(TempDir::new().expect("has a directory"))
    }

    async fn table(&self, log: LogId) -> Result<Arc<dyn KeyTable>, KeyError> {
        Ok(Arc::new(SqliteKeys::open(&self.0.path().join("keys.db"), log)?))
    }
}

struct Database(PostgresAddress);

impl Place for Database {
    const IS_SHARED: bool = true;

    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("contract-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let views = PostgresAddress::parse(&postgres::shared().url("postgres"), &schema).expect("is an address");
        Self(views.of_keys().expect("has a name"))
    }

    async fn table(&self, log: LogId) -> Result<Arc<dyn KeyTable>, KeyError> {
        Ok(Arc::new(PostgresKeys::make(&self.0, log).await?))
    }
}

fn kept(number: u8) -> KeptKey {
    KeptKey { id: Uuid::from_u128(number.into()), secret: [number; 32].as_slice().into() }
}

fn user(name: &str) -> UserId {
    UserId::trusted(name)
}

async fn a_destroyed_key_is_known_by_name_and_who_comes_back_has_a_new_one(place: &impl Place) {
    let (keys, alice, bob) = (place.table(LOG).await.expect("opens"), user("al\0ice 🙂"), user("bob"));
    assert_eq!(keys.of_user(&alice, kept(0xa1)).await.unwrap(), kept(0xa1));
    assert_eq!(keys.of_user(&alice, kept(0xa2)).await.unwrap(), kept(0xa1), "there is one already");
    keys.of_user(&bob, kept(0xb1)).await.unwrap();
    assert_eq!(keys.destroy(&alice).await.unwrap(), [kept(0xa1).id]);
    let again = place.table(LOG).await.expect("opens once more");
    for keys in [&keys, &again] {
        assert_eq!(keys.find(kept(0xa1).id).await.unwrap(), Known::Destroyed);
        assert_eq!(keys.find(kept(0xa2).id).await.unwrap(), Known::Nothing);
        assert_eq!(keys.find(kept(0xb1).id).await.unwrap(), Known::Here(kept(0xb1)));
    }
    assert_eq!(again.of_user(&alice, kept(0xa3)).await.unwrap(), kept(0xa3));
    assert_eq!(keys.destroy(&alice).await.unwrap(), [kept(0xa1).id, kept(0xa3).id]);
    assert!(keys.destroy(&user("nobody")).await.unwrap().is_empty());
}

async fn many_that_make_a_key_at_once_have_the_same(place: &impl Place) {
    let alice = user("alice");
    let tables = join_all((1..=8).map(|_| place.table(LOG))).await;
    let tries = tables.iter().zip(1..).map(|(keys, number)| {
        let keys = keys.as_ref().expect("opens");
        keys.of_user(&alice, kept(number))
    });
    let made: Vec<_> = join_all(tries).await.into_iter().map(|made| made.expect("makes one")).collect();
    assert!(made.iter().all(|key| *key == made[0]), "{made:?}");
}

async fn the_table_of_another_log_is_refused(place: &impl Place) {
    place.table(LOG).await.expect("makes it");
    let Err(refused) = place.table(LogId(Uuid::from_u128(2))).await else { panic!("it is used") };
    assert!(refused.to_string().contains(&format!("those of log {LOG}")), "{refused}");
}

async fn a_report_takes_the_place_of_the_one_that_was_read(place: &impl Place) {
    let (keys, alice, bob) = (place.table(LOG).await.expect("opens"), user("alice"), user("bob"));
    let report = |text: &str, is_finished| KeptReport { text: text.to_owned(), is_finished };
    assert_eq!(keys.report(&alice).await.unwrap(), None);
    assert!(keys.keep_report(&alice, None, &report("begun", false)).await.unwrap());
    assert!(!keys.keep_report(&alice, None, &report("begun twice", false)).await.unwrap());
    assert!(keys.keep_report(&bob, None, &report("bob's", false)).await.unwrap());
    assert!(!keys.keep_report(&alice, Some("other"), &report("lost", false)).await.unwrap());
    assert_eq!(keys.unfinished().await.unwrap(), [(alice.clone(), "begun".into()), (bob.clone(), "bob's".into())]);
    assert!(keys.keep_report(&alice, Some("begun"), &report("done", true)).await.unwrap());
    assert_eq!(keys.unfinished().await.unwrap(), [(bob, "bob's".into())]);
    assert_eq!(keys.report(&alice).await.unwrap().as_deref(), Some("done"));
    assert!(keys.keep_report(&alice, Some("done"), &report("begun again", false)).await.unwrap());
}

async fn rounds_are_counted_and_each_node_says_how_far_it_is(place: &impl Place) {
    let (keys, other) = (place.table(LOG).await.expect("opens"), place.table(LOG).await.expect("opens"));
    assert_eq!(keys.scrubs().await.unwrap(), Scrubs::default());
    let (a, b) = (NodeId::trusted("a"), NodeId::trusted("b"));
    assert_eq!((keys.ask_scrub().await.unwrap(), other.ask_scrub().await.unwrap()), (1, 2));
    for (node, round) in [(&a, 1), (&b, 2), (&a, 2)] {
        keys.scrubbed(node, round).await.unwrap();
    }
    assert_eq!(other.scrubs().await.unwrap(), Scrubs { asked: 2, done: [(a, 2), (b, 2)].into() });
}

async fn one_at_a_time_has_the_turn(place: &impl Place) {
    let (keys, other) = (place.table(LOG).await.expect("opens"), place.table(LOG).await.expect("opens"));
    let turn = keys.turn().await.unwrap().expect("nobody has it");
    assert_eq!(other.turn().await.unwrap().is_none(), place_is_shared(place));
    drop(turn);
    while other.turn().await.unwrap().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn place_is_shared<P: Place>(_: &P) -> bool {
    P::IS_SHARED
}

macro_rules! suites {
    ($($name:ident: $place:ty,)+) => {
        $(mod $name {
            use super::*;
            rules! { $place:
                a_destroyed_key_is_known_by_name_and_who_comes_back_has_a_new_one,
                many_that_make_a_key_at_once_have_the_same,
                the_table_of_another_log_is_refused,
                a_report_takes_the_place_of_the_one_that_was_read,
                rounds_are_counted_and_each_node_says_how_far_it_is,
                one_at_a_time_has_the_turn,
            }
        })+
    };
}

macro_rules! rules {
    ($place:ty: $($rule:ident,)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $rule() {
            super::$rule(&<$place>::new()).await;
        })+
    };
}

suites! {
    file: File,
    database: Database,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_keys_says_that_they_are_lost() {
    let place = Database::new();
    let Err(lost) = PostgresKeys::open(&place.0, LOG).await else { panic!("it opens") };
    assert!(lost.to_string().contains("restore them from a backup"), "{lost}");
    place.table(LOG).await.expect("makes it");
    PostgresKeys::open(&place.0, LOG).await.expect("opens");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_destroyed_key_are_in_no_page_of_the_database() {
    let place = Database::new();
    let keys = place.table(LOG).await.expect("opens");
    keys.of_user(&user("alice"), kept(0xa1)).await.unwrap();
    keys.of_user(&user("bob"), kept(0xb1)).await.unwrap();
    let bytes_of = |number: u8| format!("{number:02x}").repeat(32);
    let pages = || {
        let schema = place.0.clone();
        let table = format!("{schema:?}");
        let schema = table.split_once("schema ").expect("it names the schema").1.to_owned();
        let sql =
            format!("checkpoint; select encode(pg_read_binary_file(pg_relation_filepath('\"{schema}\".keys')), 'hex')");
        postgres::shared().execute("postgres", &sql).expect("a superuser may")
    };
    assert!(pages().contains(&bytes_of(0xa1)) && pages().contains(&bytes_of(0xb1)));
    keys.destroy(&user("alice")).await.unwrap();
    assert!(!pages().contains(&bytes_of(0xa1)) && pages().contains(&bytes_of(0xb1)));
}
