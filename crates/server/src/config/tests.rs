//! Tests of the configuration as a whole: what a file means, what is refused and how, and that it can be written again.

use std::io;
use std::path::Path;

use proptest::prelude::*;

use super::keys::{KEYS, Kind};
use super::*;

const THREE: &str =
    "dataDir=/data\nclientPort=2181\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";

/// The files that a configuration under test refers to. This server is 1 in `/data` and 9 in `/nine`.
fn read_file(path: &Path) -> io::Result<String> {
    Ok(match path.to_str().unwrap_or_default() {
        "/data/myid" | "other-7/myid" => "1\n".to_owned(),
        "/nine/myid" => "9".to_owned(),
        "/words/myid" => "one".to_owned(),
        "/servers" => "server.1=x:1:2;3\nserver.2=y:1:2\nserver.3=z:1:2\nversion=100000000\n".to_owned(),
        "/jaas" => {
            let section = |name: &str| format!("{name} {{ x.DigestLoginModule required user_{name}=\"xyzzy\"; }};\n");
            section("Server") + &section("Other")
        }
        "/users" => "bob:xyzzy\n".to_owned(),
        "/more" => "bob:xyzzy\nsuper:xyzzy\n".to_owned(),
        "/strange" => "tickTime=5\n".to_owned(),
        "/topology" => {
            "name=\"t\"\n[[server]]\nid=1\nsite=\"D1\"\n[[server]]\nid=2\nsite=\"D1\"\n[[server]]\nid=3\nsite=\"D1\"\n"
                .to_owned()
        }
        _ => return Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    })
}

fn parse(text: &str) -> Result<(Config, Vec<Warning>), ConfigError> {
    Config::parse_cfg("zoo.cfg", text, &read_file)
}

fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|error| panic!("{error}")).0
}

fn good_toml(text: &str) -> Config {
    Config::parse_toml("pole.toml", text, &read_file).unwrap_or_else(|error| panic!("{error}\n{text}")).0
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

fn warned(text: &str) -> String {
    let warnings = parse(text).unwrap_or_else(|error| panic!("{error}")).1;
    warnings.iter().map(|warning| format!("{warning}\n")).collect()
}

#[test]
fn without_server_lines_a_server_is_on_its_own() {
    let config = good("dataDir=/nowhere\nclientPort=2181");
    assert_eq!(config.ensemble, None);
    assert_eq!(config.clients.plain, Some(Address::new("0.0.0.0", 2181)));
    assert_eq!((config.timing.min_session_timeout_ms, config.timing.max_session_timeout_ms), (6_000, 60_000));
    assert_eq!(config.storage.log_dir, config.storage.data_dir);
    assert_eq!(config.membership(), "");
}

#[test]
fn one_server_line_is_still_on_its_own_unless_told_otherwise() {
    let one = "dataDir=/data\nserver.1=a:1:2;3\n";
    assert_eq!(good(one).ensemble, None);
    assert_eq!(good(one).clients.plain, Some(Address::new("0.0.0.0", 3)));
    assert_eq!(good(&format!("{one}standaloneEnabled=false")).voters().len(), 1);
    assert!(refused("dataDir=/data\nstandaloneEnabled=false").contains("zoo.cfg:2: standaloneEnabled=false: needs"));
}

#[test]
fn an_ensemble_finds_itself_by_myid() {
    let config = good(THREE);
    assert_eq!((config.me(), config.voters().len()), (ServerId(1), 3));
    assert!(refused(&THREE.replace("/data", "/nine")).contains("/nine/myid says 9, and there is no server.9 line"));
    assert!(refused(&THREE.replace("/data", "/words")).contains("/words/myid holds no number"));
    assert!(refused(&THREE.replace("/data", "/none")).contains("/none/myid is missing"));
}

#[test]
fn a_refusal_names_file_line_key_value_and_what_is_allowed() {
    assert_eq!(
        refused("dataDir=/d\n\ntickTime=0"),
        "zoo.cfg:3: tickTime=0: allowed is a whole number from 1 to 3600000"
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let message = refused("clientPort=x\nsyncLimit=0\nforceSync=perhaps\nserver.1=a\npole.oracle=best");
    for line in
        ["zoo.cfg:1: clientPort=x", "zoo.cfg:2: sync", "zoo.cfg:3: force", "zoo.cfg:4: server.1=a", "dataDir: not set"]
    {
        assert!(message.contains(line), "{line} in {message}");
    }
    assert!(message.contains("zoo.cfg:5: pole.oracle=best: unknown oracle"), "{message}");
}

#[test]
fn a_typo_in_a_key_of_pole_is_an_error_and_in_one_of_apache_a_warning() {
    assert!(refused("dataDir=/d\npole.hartbeatMs=5").contains("did you mean pole.heartbeatMs?"));
    assert!(warned("dataDir=/d\nclientPort=1\ntickTim=5").contains("zoo.cfg:3: tickTim=5: unknown key, not used"));
}

#[test]
fn unsupported_settings_are_refused() {
    let base = "dataDir=/d\nclientPort=1\n";
    let refusals = [
        "peerType=king",
        "weight.1=-1",
        "ssl.crl=true",
        "quorum.auth.enableSasl=true",
        "portUnification=true",
        "electionAlg=1",
        "authProvider.1=org.example.OwnProvider",
        "authProvider.key=org.apache.zookeeper.server.auth.KeyAuthenticationProvider",
        "DigestAuthenticationProvider.digestAlg=MD5",
    ];
    for line in refusals {
        assert!(refused(&format!("{base}{line}")).contains("zoo.cfg:3: "), "{line}");
    }
    let known = "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider";
    assert_eq!(warned(&format!("{base}{known}")), "");
}

#[test]
fn names_of_the_ensemble_count_if_their_provider_is_enabled() {
    let base = "dataDir=/d\nclientPort=1\nensembleAuthName=east, west";
    assert_eq!(good(base).service.ensemble_names, None);
    let provider = "zookeeper.authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
    let names = good(&format!("{base}\n{provider}")).service.ensemble_names;
    assert_eq!(names, Some(vec!["east".to_owned(), "west".to_owned()]));
}

#[test]
fn a_connection_without_a_session_has_the_time_of_either_key() {
    let base = "dataDir=/d\nclientPort=1\n";
    let ms = |more: &str| good(&format!("{base}{more}")).clients.greeting_timeout_ms;
    assert_eq!(ms(""), 10_000);
    assert_eq!(ms("nio.sessionlessCnxnTimeout=3000"), 3_000);
    assert_eq!(ms("nio.sessionlessCnxnTimeout=3000\npole.client.greetingTimeoutMs=4000"), 4_000);
}

#[test]
fn settings_without_effect_cause_a_warning() {
    let message = warned("dataDir=/d\nclientPort=1\nlocalSessionsEnabled=true\nconnectToLearnerMasterLimit=5");
    assert!(message.contains("zoo.cfg:3: localSessionsEnabled=true: accepted and not used"), "{message}");
    assert!(message.contains("connectToLearnerMasterLimit"), "{message}");
    assert!(warned("dataDir=/d\nclientPort=1\nclientPort=2").contains("set in line 2 already"));
}

#[test]
fn an_even_number_of_servers_causes_apaches_warning() {
    let four = format!("{THREE}server.4=d:2888:3888");
    assert!(warned(&four).contains("Non-optimal configuration, consider an odd number of servers."));
    let two = THREE.replace("server.3=c:2888:3888\n", "");
    assert!(warned(&two).contains("You need at least 3 servers."));
    assert_eq!(warned(THREE), "");
}

#[test]
fn two_ports_on_one_host_must_differ() {
    assert!(
        refused(&THREE.replace("b:2888", "A:2888"))
            .contains("zoo.cfg:4: server.2: port 2888 on A is also a port of server.1")
    );
    assert!(refused(&THREE.replace("a:2888:3888", "a:2888:2888")).contains("server.1"));
    assert!(
        refused(&THREE.replace("clientPort=2181", "clientPort=3888")).contains("zoo.cfg:2: clientPort: port 3888 on a")
    );
    let local = "dataDir=/data\nserver.1=h:1:2;9\nserver.2=h:3:4;9\nserver.3=h:5:6;8";
    assert!(refused(local).contains("port 9 on h is also a port of server.1"));
}

#[test]
fn the_client_port_may_stand_in_the_server_line() {
    let listed = THREE.replace("a:2888:3888", "a:2888:3888;127.0.0.1:2181");
    assert_eq!(good(&listed).clients.plain, Some(Address::new("127.0.0.1", 2181)));
    assert!(
        refused(&listed.replace("clientPort=2181", "clientPort=2182")).contains("zoo.cfg:2: clientPort=2182: differs")
    );
}

#[test]
fn session_timeouts_follow_the_tick_and_must_not_cross() {
    let config = good("dataDir=/d\nclientPort=1\ntickTime=100\nmaxSessionTimeout=5000");
    assert_eq!((config.timing.min_session_timeout_ms, config.timing.max_session_timeout_ms), (200, 5_000));
    assert!(
        refused("dataDir=/d\nminSessionTimeout=5\nmaxSessionTimeout=4").contains("is more than maxSessionTimeout=4")
    );
}

#[test]
fn a_key_may_be_named_as_a_property_of_java() {
    let config = good("dataDir=/d\nclientPort=1\nzookeeper.extendedTypesEnabled=true\nzookeeper.snapCount=7");
    assert!(config.service.extended_types);
    assert_eq!(config.storage.snap_count, 7);
}

#[test]
fn srvr_is_always_answered_and_isro_where_it_is_needed() {
    let words = |text: &str| good(&format!("dataDir=/d\nclientPort=1\n{text}")).clients.four_letter_words;
    assert!(words("").allows("srvr") && !words("").allows("isro"));
    assert!(words("readonlymode.enabled=true").allows("isro"));
    let named = words("4lw.commands.whitelist=stat, \u{1}ruok");
    assert!(named.allows("ruok") && named.allows("srvr") && !named.allows("dump"));
    assert!(words("4lw.commands.whitelist=*").allows("dump"));
}

#[test]
fn words_that_change_who_leads_have_to_be_named() {
    let words = |list: &str| {
        good(&format!("dataDir=/d\nclientPort=1\n4lw.commands.whitelist={list}")).clients.four_letter_words
    };
    for word in ["rqld", "ydld"] {
        assert!(!words("*").allows(word) && !words("srvr").allows(word), "{word}");
    }
    let both = words("*,rqld,ydld");
    assert!(both.allows("rqld") && both.allows("ydld") && both.allows("dump"));
    assert!(words("rqld").allows("rqld") && !words("rqld").allows("ydld"));
}

#[test]
fn an_oracle_is_built_when_the_file_is_parsed() {
    let base = "dataDir=/d\nclientPort=1\n";
    let config = good(&format!("{base}pole.oracle=combined\npole.oracle.combined=latency/10ms,history"));
    assert_eq!(config.oracle().to_string(), "combined=latency/10ms,history");
    assert!(
        refused(&format!("{base}pole.oracle.combined=latency/10"))
            .contains("zoo.cfg:3: pole.oracle.combined=latency/10: class")
    );
    assert!(
        refused(&format!("{base}pole.oracle=preference"))
            .contains("zoo.cfg:3: pole.oracle=preference: oracle preference needs")
    );
    // A parameter of another oracle is kept, in case that one is chosen at run time.
    assert_eq!(good(&format!("{base}pole.oracle=latency\npole.oracle.preference=1,2")).oracle().to_string(), "latency");
}

#[test]
fn servers_may_stand_in_a_file_of_their_own() {
    let config = good("dataDir=/data\ndynamicConfigFile=/servers");
    assert_eq!((config.voters().len(), config.clients.plain), (3, Some(Address::new("0.0.0.0", 3))));
    assert!(refused(&format!("{THREE}dynamicConfigFile=/servers")).contains("zoo.cfg:3: server.1"));
    assert!(refused("dataDir=/data\ndynamicConfigFile=/strange").contains("/strange:1: tickTime=5: only server.N"));
    assert!(
        refused("dataDir=/data\ndynamicConfigFile=/gone")
            .contains("zoo.cfg:2: dynamicConfigFile=/gone: cannot be read")
    );
}

#[cfg(feature = "emulation")]
#[test]
fn an_emulation_sets_sites_and_causes_a_warning() {
    let text = format!("{THREE}pole.topology=/topology\n");
    let config = good(&text);
    assert_eq!(config.pole.site.as_deref(), Some("D1"));
    assert!(warned(&text).contains("for tests only"));
    assert!(refused(&format!("{text}server.4=d:1:2")).contains("server 4 has no site there"));
    assert_eq!(good(&config.to_cfg()), config);
}

#[cfg(not(feature = "emulation"))]
#[test]
fn a_build_without_emulation_refuses_a_topology() {
    assert!(refused(&format!("{THREE}pole.topology=/topology\n")).contains("without the feature `emulation`"));
}

#[test]
fn a_secure_port_needs_its_stores() {
    let base = "dataDir=/d\nsecureClientPort=1\n";
    let message = refused(base);
    assert!(message.contains("needs ssl.keyStore.location") && message.contains("or ssl.clientAuth=none"), "{message}");
    assert_eq!(good(&format!("{base}ssl.clientAuth=none\nssl.keyStore.location=k.p12")).clients.plain, None);
    assert!(refused(&format!("{base}ssl.keyStore.location=k.store")).contains("set ssl.keyStore.type"));
    assert!(refused(&format!("{THREE}sslQuorum=true")).contains("needs ssl.quorum.trustStore.location"));
}

#[test]
fn unsupported_protocols_and_suites_are_reported() {
    let base = "dataDir=/d\nclientPort=1\n";
    let tls = |line: &str| good(&format!("{base}{line}")).tls.clients;
    assert_eq!((tls("").tls12, tls("").tls13), (true, true));
    assert_eq!((tls("ssl.protocol=TLSv1.2").tls12, tls("ssl.protocol=TLSv1.2").tls13), (true, false));
    assert!(warned(&format!("{base}ssl.enabledProtocols=TLSv1.3,TLSv1.1")).contains("TLSv1.1 is not spoken"));
    assert!(refused(&format!("{base}ssl.protocol=SSLv3")).contains("none of these is spoken"));
    let suites = "ssl.ciphersuites=TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    assert_eq!(tls(suites).cipher_suites.len(), 2);
    assert!(refused(&format!("{base}ssl.ciphersuites=TLS_RSA_WITH_RC4_128_MD5")).contains("allowed is TLS"));
}

#[test]
fn an_admin_server_on_all_addresses_should_have_a_token() {
    let open = "dataDir=/d\nclientPort=1\nadmin.serverAddress=0.0.0.0\n";
    assert!(
        warned(open)
            .contains("zoo.cfg:3: admin.serverAddress=0.0.0.0: is not loopback, and pole.admin.token is not set")
    );
    assert_eq!(warned(&format!("{open}pole.admin.token=t")), "");
    assert_eq!(warned("dataDir=/d\nclientPort=1\nadmin.serverAddress=localhost"), "");
}

#[test]
fn secrets_are_never_printed() {
    let text = "dataDir=/d\nclientPort=1\nDigestAuthenticationProvider.superDigest=super:xyzzy\nssl.keyStore.location=k.pem\n\
                ssl.keyStore.password=xyzzy\npole.admin.token=xyzzy\npole.admin.token=xyzzy\npole.sasl.jaasFile=/jaas\n\
                pole.sasl.usersFile=/users\nSASLAuthenticationProvider.superPassword=xyzzy";
    assert!(!warned(text).contains("xyzzy"));
    assert!(!format!("{:?}", good(text)).contains("xyzzy"));
}

#[test]
fn the_node_gets_the_durations_of_the_file() {
    let node =
        good(&format!("{THREE}tickTime=100\nsyncLimit=4\npole.livenessMs=7\nsnapCount=11\npole.resign=off")).node();
    assert_eq!((node.me, node.sync_limit, node.liveness), (ServerId(1), Span::from_ms(400), Span::from_ms(7)));
    assert_eq!((node.snapshot_every, node.retain_bytes, node.resign.enabled), (11, 32 << 20, false));
}

#[test]
fn the_longest_spans_do_not_overflow() {
    let longest = "tickTime=3600000\ninitLimit=1000000\nsyncLimit=1000000\npole.patienceMs=86400000\npole.resign.cooldownMs=86400000";
    let node = good(&format!("{THREE}{longest}")).node();
    assert_eq!(node.init_limit, Span::from_ms(3_600_000_000_000));
}

#[test]
fn the_ensemble_is_written_as_apache_writes_it() {
    let text = THREE.replace("b:2888:3888", "[::1]:2888:3888;2182");
    let expected = "server.1=a:2888:3888:participant\nserver.2=[0:0:0:0:0:0:0:1]:2888:3888:participant;0.0.0.0:2182\n\
                    server.3=c:2888:3888:participant\nversion=0";
    assert_eq!(good(&text).membership(), expected);
}

#[test]
fn conf_is_written_as_apache_writes_it() {
    let expected = "clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=5\ndataLogDir=/data/version-2\n\
                    dataLogSize=6\ntickTime=3000\nmaxClientCnxns=60\nminSessionTimeout=6000\nmaxSessionTimeout=60000\n\
                    clientPortListenBacklog=-1\nserverId=1\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3888\n\
                    quorumPort=2888\npeerType=0\nmembership: \n";
    let config = good(THREE);
    assert_eq!(config.conf(5, 6), format!("{expected}{}", config.membership()));
}

#[test]
fn toml_means_the_same() {
    let toml = "dataDir = '/data'\nclientPort = 2181\n[server]\n1 = 'a:2888:3888'\n2 = 'b:2888:3888'\n3 = 'c:2888:3888'\n\
                [pole.oracle]\nname = 'combined'\ncombined = ['latency/10ms', 'history']\n[pole.resign]\nenabled = false\n";
    let cfg = format!("{THREE}pole.oracle=combined\npole.oracle.combined=latency/10ms,history\npole.resign=off");
    assert_eq!(good_toml(toml), good(&cfg));
    let error =
        Config::parse_toml("pole.toml", "dataDir='/d'\n[pole]\nlivenesMs = 5", &read_file).unwrap_err().to_string();
    assert_eq!(error, "pole.toml:3: pole.livenesMs=5: unknown key; did you mean pole.livenessMs?");
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_name() {
    let message = Config::load(Path::new("/no/such/zoo.cfg")).unwrap_err().to_string();
    assert!(message.starts_with("/no/such/zoo.cfg: cannot be read"), "{message}");
}

#[test]
fn what_is_written_names_the_limits_that_apache_asks_for() {
    let written = good(THREE).to_cfg();
    assert!(written.contains("initLimit=10\n") && written.contains("syncLimit=5\n"), "{written}");
}

#[test]
fn a_server_on_its_own_keeps_the_client_port_of_its_line() {
    let config = good("dataDir=/data\nserver.1=localhost:2888:3888;2181\n");
    assert!(config.ensemble.is_none() && config.clients.plain.is_some());
    assert_eq!(good(&config.to_cfg()), config);
    assert_eq!(good_toml(&config.to_toml()), config);
}

#[test]
fn toml_text_is_escaped() {
    let config = good("dataDir=/da\\u0074a \"x\" \\\\\\t\nclientPort=2181\n");
    assert_eq!(good_toml(&config.to_toml()), config);
}

#[test]
fn lists_of_revoked_certificates_need_a_file_and_the_key_that_uses_it() {
    let base = "dataDir=/d\nsecureClientPort=1\nssl.keyStore.location=k.pem\nssl.trustStore.location=t.pem\n";
    assert!(refused(&format!("{base}ssl.crl=true")).contains("needs pole.ssl.crlFile"));
    assert!(refused(&format!("{base}ssl.quorum.crl=true")).contains("needs pole.ssl.quorum.crlFile"));
    assert!(warned(&format!("{base}pole.ssl.crlFile=r.pem")).contains("not used: ssl.crl is false"));
    let tls = good(&format!("{base}ssl.crl=true\npole.ssl.crlFile=r.pem")).tls;
    assert_eq!((tls.clients.revocation_lists, tls.peers.revocation_lists), (Some("r.pem".into()), None));
}

#[test]
fn the_host_of_a_client_is_checked_where_hosts_are() {
    let checks = |lines: &str| {
        let tls = good(&format!("dataDir=/d\nclientPort=1\n{lines}")).tls;
        (tls.clients.verify_client_host, tls.peers.verify_client_host)
    };
    assert_eq!(checks(""), (false, true), "as in Apache");
    assert_eq!(
        checks("ssl.clientHostnameVerification=true\nssl.quorum.clientHostnameVerification=false"),
        (true, false)
    );
    let off =
        "ssl.clientHostnameVerification=true\nssl.hostnameVerification=false\nssl.quorum.hostnameVerification=false";
    assert_eq!(checks(off), (false, false));
}

/// A file in which every key has an effect.
const FULL: &str = "secureClientPort=2281\nsecureClientPortAddress=x\nclientPortAddress=x\nmetricsProvider.httpPort=7000\n\
                    ssl.keyStore.location=k.pem\nssl.trustStore.location=t.pem\nssl.quorum.keyStore.location=k.pem\n\
                    ssl.quorum.trustStore.location=t.pem\nadmin.serverPort=8080\npole.sasl.usersFile=/users\n\
                    enforce.auth.schemes=ip\nssl.crl=true\npole.ssl.crlFile=r.pem\nssl.quorum.crl=true\n\
                    pole.ssl.quorum.crlFile=r.pem\n";

/// A line that sets this key to another value than its default.
fn changed_line(name: &str, kind: Kind, default: &str) -> Option<String> {
    let text = match (name, kind) {
        ("maxSessionTimeout", _) => "70000".to_owned(),
        ("secureClientPort", _) => "5".to_owned(),
        ("autopurge.snapRetainCount", _) => "9".to_owned(),
        // Valid only together with other keys; they have tests of their own.
        ("standaloneEnabled" | "dynamicConfigFile" | "pole.topology", _) => return None,
        ("ssl.crl" | "ssl.quorum.crl", _) => "false".to_owned(),
        ("pole.sasl.usersFile", _) => "/more".to_owned(),
        ("pole.sasl.jaasFile", _) => "/jaas".to_owned(),
        ("sasl.serverconfig", _) => "Other".to_owned(),
        ("enforce.auth.schemes", _) => "digest,sasl".to_owned(),
        ("pole.oracle", _) => "latency".to_owned(),
        ("pole.logFilter", _) => "pole::peer=debug".to_owned(),
        ("pole.oracle.preference", _) => "3,1".to_owned(),
        ("pole.oracle.combined", _) => "latency/3ms,history".to_owned(),
        ("ssl.protocol" | "ssl.enabledProtocols" | "ssl.quorum.protocol" | "ssl.quorum.enabledProtocols", _) => {
            "TLSv1.3".to_owned()
        }
        ("ssl.ciphersuites" | "ssl.quorum.ciphersuites", _) => "TLS_AES_128_GCM_SHA256".to_owned(),
        (_, Kind::Number(min, _)) => (default.parse::<i64>().unwrap_or(min) + 1).to_string(),
        (_, Kind::Bool(yes, no)) => if default == yes { no } else { yes }.to_owned(),
        (_, Kind::Text) => format!("other-{}", name.len()) + if name.contains("Store") { ".p12" } else { "" },
        (_, Kind::Secret) => "other\\\\ secret".to_owned(),
        (_, Kind::Word(words)) => words.iter().rev().find(|word| **word != default).unwrap_or(&"").to_string(),
        (_, Kind::Only(..) | Kind::Unused(_) | Kind::Family) => return None,
    };
    Some(format!("{name}={text}\n"))
}

#[test]
fn every_key_that_is_used_changes_something_and_is_written_back() {
    let base = good(&format!("{THREE}{FULL}"));
    for key in KEYS {
        let Some(line) = changed_line(key.name, key.kind, key.default) else { continue };
        let changed = good(&format!("{THREE}{FULL}{line}"));
        assert_ne!(changed, base, "{line}");
        assert_eq!(good(&changed.to_cfg()), changed, "{line}");
        assert_eq!(good_toml(&changed.to_toml()), changed, "{line}");
    }
}

/// Lines for some of the keys, with values other than their defaults.
fn some_settings() -> impl Strategy<Value = String> {
    let lines: Vec<String> = KEYS.iter().filter_map(|key| changed_line(key.name, key.kind, key.default)).collect();
    let count = lines.len();
    (proptest::sample::subsequence(lines, 0..count), any::<bool>()).prop_map(|(lines, alone)| {
        let base = if alone { "dataDir=/data\nclientPort=2181\n" } else { THREE };
        format!("{base}{FULL}{}", lines.concat())
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(text in some_settings()) {
        let config = good(&text);
        prop_assert_eq!(good(&config.to_cfg()), config.clone());
        prop_assert_eq!(good_toml(&config.to_toml()), config);
    }

    #[test]
    fn no_text_causes_a_panic(text in "(\\PC|[\\\\\\n =:;.,0-9])*") {
        let _ = parse(&text);
        let _ = Config::parse_toml("pole.toml", &text, &read_file);
    }

    #[test]
    fn no_value_causes_a_panic(key in 0..KEYS.len(), value in "\\PC*", ending in "[0-9a-z]{0,3}") {
        let name = KEYS[key].name.trim_end_matches('N');
        let _ = parse(&format!("{THREE}{name}{ending}={value}\n"));
        let _ = parse(&format!("{THREE}{name}={value}\n"));
    }
}
