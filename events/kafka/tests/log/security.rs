//! TLS, passwords and rights. One broker with a second listener that asks for them; its plain listener is for the
//! one who sets it up.

use std::{fs, path::Path, process::Command, sync::OnceLock};

use reenact_events::EventLog;
use reenact_kafka::{ConnectError, Options, Verdict, examine};
use reenact_kafka_rig::Cluster;
use tempfile::TempDir;

use crate::{refusals::refused, support::*};

const PASSWORD: &str = "hunter2";

struct Secured {
    cluster: Cluster,
    /// The broker's certificate, which is its own authority, and everything else that the cluster keeps.
    dir: TempDir,
}

fn secured() -> &'static Secured {
    static SECURED: OnceLock<Secured> = OnceLock::new();
    SECURED.get_or_init(|| {
        let (options, dir) = rig();
        let keystore = certificate(dir.path());
        let properties = [
            (
                "listeners",
                "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},SASL_SSL://127.0.0.1:{secure_port}",
            ),
            ("advertised.listeners", "PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{secure_port}"),
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.location", &keystore),
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512,OAUTHBEARER"),
            (
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
                "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            ),
            (
                "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config",
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"x\";",
            ),
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:ANONYMOUS;User:admin"),
        ];
        let options = properties.iter().fold(options, |options, (name, value)| options.property(*name, *value));
        let cluster = Cluster::up(options).expect("Kafka comes up");
        for user in ["admin", "narrow"] {
            let config = format!("SCRAM-SHA-512=[password={PASSWORD}]");
            let args = ["--alter", "--add-config", &config, "--entity-type", "users", "--entity-name", user];
            tool(&cluster, "kafka.admin.ConfigCommand", &args);
        }
        Secured { cluster, dir }
    })
}

fn tool(cluster: &Cluster, class: &str, args: &[&str]) {
    let bootstrap = cluster.bootstrap();
    cluster.tool(class, &[&["--bootstrap-server", bootstrap.as_str()], args].concat()).expect("the tool works");
}

/// Key and certificate in one file, as the broker wants them; the certificate alone beside it.
fn certificate(dir: &Path) -> String {
    let path = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let (key, certificate, keystore) = (path("key.pem"), path("certificate.pem"), path("keystore.pem"));
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        &key,
        "-out",
        &certificate,
    ]);
    let output = openssl.args(subject).output().expect("`openssl` starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let both = [&key, &certificate].map(|path| fs::read_to_string(path).expect("is there")).concat();
    fs::write(&keystore, both).expect("is written");
    keystore
}

/// A deployment on the listener that asks.
fn deployment_of(user: &str, password: &str) -> Options {
    let secured = secured();
    let mut options = deployment(&secured.cluster.secure_bootstrap(), 1);
    let authority = secured.dir.path().join("certificate.pem");
    for (name, value) in [
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", authority.to_str().expect("UTF-8")),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", user),
        ("sasl.password", password),
    ] {
        options.properties.insert(name.to_owned(), value.to_owned());
    }
    options
}

fn says(error: &ConnectError, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
    assert!(!text.contains(PASSWORD), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_works_over_tls_with_a_password() {
    let (member, lease) = Member::owner(&deployment_of("admin", PASSWORD), "one").await;
    member.committed(&lease, &batch("secret")).await;
    assert_eq!(texts(&member.history(FIRST).await), ["secret"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_works_over_tls_with_a_token() {
    let mut options = deployment_of("", "");
    for name in ["sasl.username", "sasl.password"] {
        options.properties.remove(name);
    }
    for (name, value) in [
        ("sasl.mechanism", "OAUTHBEARER"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "true"),
        ("sasl.oauthbearer.config", "principal=admin lifeSeconds=600"),
    ] {
        options.properties.insert(name.to_owned(), value.to_owned());
    }
    let (member, lease) = Member::owner(&options, "one").await;
    member.committed(&lease, &batch("secret")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_and_not_printed() {
    let error = refused(deployment_of("admin", "hunter2-wrong")).await;
    assert!(error.is_passing(), "somebody may set it right: {error}");
    says(&error, &["uthentication", "are the credentials right"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let mut options = deployment_of("admin", PASSWORD);
    options.properties.remove("ssl.ca.location");
    says(&refused(options).await, &["certificate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named_and_given_without_a_new_process() {
    let options = deployment_of("narrow", PASSWORD);
    let error = refused(options.clone()).await;
    assert!(error.is_passing(), "{error}");
    says(&error, &[&options.topics().commands, "uthorization"]);
    let user = "User:narrow";
    for right in [["--topic", &*options.prefix], ["--transactional-id", &options.prefix]] {
        let mut args = vec!["--add", "--allow-principal", user, "--operation", "All"];
        args.extend(right);
        args.extend(["--resource-pattern-type", "prefixed"]);
        tool(&secured().cluster, "org.apache.kafka.tools.AclCommand", &args);
    }
    // The group is still missing: the log connects, owns nothing, and says why.
    let member = Member::join(&options, "one").await;
    let reason = until_trouble(&member).await;
    assert!(reason.contains("roup authorization"), "{reason}");
    let args = ["--add", "--allow-principal", user, "--operation", "Read", "--group", &options.prefix];
    let args = [&args[..], &["--resource-pattern-type", "prefixed"]].concat();
    tool(&secured().cluster, "org.apache.kafka.tools.AclCommand", &args);
    let mut member = member;
    assert_eq!(member.granted().await, FIRST);
    let lease = member.reclaim(FIRST).await;
    member.committed(&lease, &batch("allowed")).await;
    assert_eq!(member.log.trouble(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_what_the_brokers_refuse_and_prints_no_secret() {
    let told = |options: Options| {
        let (findings, _) = tokio::task::block_in_place(|| examine(&options));
        findings
            .into_iter()
            .filter(|finding| finding.verdict == Verdict::Wrong)
            .map(|finding| format!("{}: {}", finding.check, finding.text))
            .collect::<Vec<_>>()
            .join("\n")
    };
    for (options, words) in [
        (deployment_of("admin", "hunter2-wrong"), vec!["kafka brokers", "uthentication"]),
        (deployment_of("narrow", PASSWORD), vec!["kafka topics", "kafka group", "uthorization", "`Read`"]),
    ] {
        let told = told(options);
        assert!(words.iter().all(|word| told.contains(word)), "{words:?} in: {told}");
        assert!(!told.contains(PASSWORD), "{told}");
    }
    assert_eq!(told(deployment_of("admin", PASSWORD)), "");
}

async fn until_trouble(member: &Member) -> String {
    let noticing = async {
        loop {
            if let Some(trouble) = member.log.trouble() {
                return trouble.to_string();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    soon("noticing", noticing).await
}
