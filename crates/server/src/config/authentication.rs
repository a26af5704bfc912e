//! Builds the settings of authentication: classes of schemes, the users of SASL, superusers, and the schemes that clients
//! have to use.
//!
//! Users come from a JAAS file (`jaas`) or from a file of Pole's own, `NAME:PASSWORD` in each line. The JAAS file may name a
//! principal of Kerberos instead. Both are read here, once. Afterwards every required scheme is one that clients can use.

use std::collections::BTreeMap;
use std::path::Path;

use super::ReadFile;
use super::jaas::{self, JaasError, Users};
use super::properties;
use super::report::{About, Report};
use super::settings::Service;
use super::types::Secret;
use super::values::Values;

pub(super) fn service(values: &Values, read: ReadFile<'_>, report: &mut Report) -> Service {
    let mut users = Users::new();
    let mut kerberos = None;
    let jaas_users = |text: &str, _: &mut Report| {
        let section = jaas::section(text, values.text(SECTION).unwrap_or_default())?;
        kerberos = section.kerberos;
        Ok(section.users)
    };
    read_users(JAAS_FILE, values, read, &mut users, jaas_users, report);
    read_users(USERS_FILE, values, read, &mut users, plain_users, report);
    if kerberos.is_some() && !users.is_empty() {
        let file = values.text(JAAS_FILE).unwrap_or_default();
        let why = "its section has a principal of Kerberos, so the users of DIGEST-MD5 are not used: as in Apache, a server \
                   has one mechanism";
        report.warning_about(About::NoEffect, (values.line(JAAS_FILE), JAAS_FILE, file), why);
    }
    if let Some(password) = values.secret(SUPER_PASSWORD) {
        match users.get_mut("super") {
            Some(given) => *given = password,
            None => {
                let why = "not used: there is no user called super";
                report.warning_about(About::NoEffect, (values.line(SUPER_PASSWORD), SUPER_PASSWORD, ""), why);
            }
        }
    }
    let provider = provider(values, SASL);
    let has_files = values.text(JAAS_FILE).is_some() || values.text(USERS_FILE).is_some();
    if let (Some((key, class)), false) = (&provider, has_files) {
        let why = "there are no users of SASL: name them, or a principal of Kerberos, in pole.sasl.usersFile or pole.sasl.jaasFile";
        report.warning(0, key, class, why);
    }
    let sasl_users = (has_files && kerberos.is_none()).then_some(users);
    let sasl = provider.is_some() || has_files;
    let mut sasl_super_users: Vec<String> = super_users(values).chain(values.owned("superUser")).collect();
    sasl_super_users.sort_unstable();
    sasl_super_users.dedup();
    Service {
        required_schemes: required_schemes(values, sasl, report),
        sasl,
        sasl_users,
        kerberos,
        sasl_super_users,
        ensemble_names: ensemble_names(values),
        ..Service::read(values)
    }
}

/// The lines that a file needs beside the keys of the table to be read as this.
pub(super) fn lines(values: &Values) -> Vec<(String, String)> {
    let class = |scheme: &str, name| provider(values, name).map(|(_, class)| (format!("authProvider.{scheme}"), class));
    let classes = [class("sasl", SASL), class("ensemble", ENSEMBLE)].into_iter().flatten();
    let super_users = (1..).zip(super_users(values)).map(|(number, user)| (format!("superUser.{number}"), user));
    classes.chain(super_users).collect()
}

/// Checks a line `authProvider.N`.
pub(super) fn check_provider(key: &str, class: &str, line: usize, report: &mut Report) {
    match class_name(class) {
        "X509AuthenticationProvider" | "DigestAuthenticationProvider" | "IPAuthenticationProvider" => {}
        SASL | ENSEMBLE => {}
        "KeyAuthenticationProvider" => {
            let why = "an example of Apache's that lets in clients that know a multiple of a number in /key: use digest, sasl or x509";
            report.problem(line, key, class, why);
        }
        _ => {
            let why = "classes of Java cannot be loaded; known are the X509, Digest, IP, SASL and \
                       EnsembleAuthenticationProvider of org.apache.zookeeper.server.auth";
            report.problem(line, key, class, why);
        }
    }
}

/// The line `authProvider.N` of a class, if there is one.
fn provider(values: &Values, name: &str) -> Option<(String, String)> {
    families(values, "authProvider").find(|(_, class)| class_name(class) == name)
}

fn class_name(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

/// `ensembleAuthName`, if a line `authProvider.N` enables its scheme.
fn ensemble_names(values: &Values) -> Option<Vec<String>> {
    provider(values, ENSEMBLE)?;
    let names = values.text("ensembleAuthName").unwrap_or_default().split(',').map(properties::trim);
    Some(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The keys `FAMILY.N` and their values, by key. As with Java's properties, the last line of a key counts.
fn families(values: &Values, family: &str) -> impl Iterator<Item = (String, String)> {
    let plain = |key: &str| key.strip_prefix("zookeeper.").unwrap_or(key).to_owned();
    let of_family = values.families.iter().filter(|entry| plain(&entry.key).split('.').next() == Some(family));
    let by_key: BTreeMap<_, _> = of_family.map(|entry| (plain(&entry.key), entry.value.clone())).collect();
    by_key.into_iter()
}

/// The values of `superUser.N`.
fn super_users(values: &Values) -> impl Iterator<Item = String> {
    families(values, "superUser").map(|(_, user)| user).filter(|user| !user.is_empty())
}

/// Adds the users of a file, if it is set. The messages contain names, never passwords.
fn read_users(
    key: &'static str,
    values: &Values,
    read: ReadFile<'_>,
    users: &mut Users,
    parse: impl FnOnce(&str, &mut Report) -> Result<Users, JaasError>,
    report: &mut Report,
) {
    let Some(file) = values.text(key) else { return };
    let line = values.line(key);
    let text = match read(Path::new(file)) {
        Ok(text) => text,
        Err(error) => return report.problem(line, key, file, format!("cannot be read: {error}")),
    };
    let before = report.switch_file(file);
    let found = parse(&text, report);
    if let Err(JaasError { line, why }) = &found {
        report.problem(*line, "", "", why.clone());
    }
    report.switch_file(&before);
    for (user, password) in found.unwrap_or_default() {
        if users.contains_key(&user) {
            report.problem(line, key, file, format!("the user {user} is in {JAAS_FILE} too"));
        }
        users.insert(user, password);
    }
}

/// Reads `NAME:PASSWORD` lines. Empty lines and those that begin with `#` are skipped.
fn plain_users(text: &str, report: &mut Report) -> Result<Users, JaasError> {
    let mut users = Users::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                if users.insert(user.to_owned(), Secret(password.to_owned())).is_some() {
                    report.problem(number, "", "", format!("the user {user} was named before"));
                }
            }
            Some(_) | None => report.problem(number, "", "", "the form is NAME:PASSWORD"),
        }
    }
    Ok(users)
}

/// The schemes of which a client needs one; none if it may do without.
fn required_schemes(values: &Values, has_sasl: bool, report: &mut Report) -> Vec<String> {
    let (key, schemes) = if values.bool(REQUIRE_SASL) {
        (REQUIRE_SASL, vec!["sasl".to_owned()])
    } else if values.bool(ENFORCE) {
        let listed = values.text(SCHEMES).unwrap_or_default().split(',').map(|scheme| scheme.trim().to_owned());
        (SCHEMES, listed.filter(|scheme| !scheme.is_empty()).collect())
    } else {
        return Vec::new();
    };
    let line = values.line(key);
    if schemes.is_empty() {
        report.problem(values.line(ENFORCE), ENFORCE, "true", format!("needs {SCHEMES}"));
    }
    for scheme in &schemes {
        match scheme.as_str() {
            "digest" | "ip" | "x509" => {}
            "sasl" if has_sasl => {}
            "sasl" => report.problem(line, key, scheme, format!("needs users, in {USERS_FILE} or {JAAS_FILE}")),
            _ => report.problem(line, key, scheme, "there is no such scheme: allowed are digest, ip, sasl and x509"),
        }
    }
    schemes
}

const SASL: &str = "SASLAuthenticationProvider";
const ENSEMBLE: &str = "EnsembleAuthenticationProvider";
const JAAS_FILE: &str = "pole.sasl.jaasFile";
const USERS_FILE: &str = "pole.sasl.usersFile";
const SECTION: &str = "sasl.serverconfig";
const SUPER_PASSWORD: &str = "SASLAuthenticationProvider.superPassword";
const REQUIRE_SASL: &str = "sessionRequireClientSASLAuth";
const ENFORCE: &str = "enforce.auth.enabled";
const SCHEMES: &str = "enforce.auth.schemes";

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::Config;
    use super::*;

    fn read_file(path: &Path) -> io::Result<String> {
        Ok(match path.to_str().unwrap_or_default() {
            "/jaas" => "Server { a.DigestLoginModule required user_bob=\"secret\" user_super=\"old\"; };\n".to_owned(),
            "/kerberos" => {
                "Server { a.Krb5LoginModule required keyTab=\"/k\" principal=\"zookeeper/h@A.TEST\"; };".to_owned()
            }
            "/users" => "# users\n\nalice:pass:word\nkarl: \r\n".to_owned(),
            "/bad" => "alice\n:x\nbob:\neve:1\neve:2\n".to_owned(),
            "/both" => "bob:secret\n".to_owned(),
            _ => return Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn parse(lines: &str) -> Result<(Service, String), String> {
        let text = format!("dataDir=/d\nclientPort=1\n{lines}");
        let (config, warnings) = Config::parse_cfg("zoo.cfg", &text, &read_file).map_err(|error| error.to_string())?;
        assert_eq!(Config::parse_cfg("zoo.cfg", &config.to_cfg(), &read_file).expect("what was written").0, config);
        assert_eq!(Config::parse_toml("pole.toml", &config.to_toml(), &read_file).expect("the same").0, config);
        Ok((config.service, warnings.iter().map(|warning| format!("{warning}\n")).collect()))
    }

    fn passwords(lines: &str) -> Vec<(String, String)> {
        let users = parse(lines).expect("a good file").0.sasl_users.expect("users");
        users.into_iter().map(|(user, password)| (user, password.0)).collect()
    }

    #[test]
    fn users_come_from_either_file_or_both() {
        let pair = |user: &str, password: &str| (user.to_owned(), password.to_owned());
        assert_eq!(passwords("pole.sasl.jaasFile=/jaas"), [pair("bob", "secret"), pair("super", "old")]);
        assert_eq!(passwords("pole.sasl.usersFile=/users"), [pair("alice", "pass:word"), pair("karl", " ")]);
        assert_eq!(passwords("pole.sasl.jaasFile=/jaas\npole.sasl.usersFile=/users").len(), 4);
        let new = "pole.sasl.jaasFile=/jaas\nSASLAuthenticationProvider.superPassword=new";
        assert_eq!(passwords(new)[1], pair("super", "new"));
        let (service, _) = parse("").expect("a good file");
        assert_eq!((service.sasl, service.sasl_users), (false, None));
    }

    #[test]
    fn a_bad_file_is_refused_without_printing_passwords() {
        let said = parse("pole.sasl.usersFile=/bad").unwrap_err();
        for line in
            ["/bad:1: the form is NAME:PASSWORD", "/bad:2: the form", "/bad:3: the form", "/bad:5: the user eve"]
        {
            assert!(said.contains(line), "{said}");
        }
        assert!(parse("pole.sasl.jaasFile=/gone").unwrap_err().contains("cannot be read"));
        assert!(parse("pole.sasl.jaasFile=/jaas\nsasl.serverconfig=Other").unwrap_err().contains("no section Other"));
        let both = parse("pole.sasl.jaasFile=/jaas\npole.sasl.usersFile=/both").unwrap_err();
        assert!(both.contains("the user bob is in pole.sasl.jaasFile too") && !both.contains("secret"), "{both}");
        let (service, _) = parse("pole.sasl.jaasFile=/jaas").expect("a good file");
        assert!(!format!("{service:?}").contains("secret"));
    }

    #[test]
    fn a_principal_of_kerberos_goes_before_users() {
        let (service, warnings) = parse("pole.sasl.jaasFile=/kerberos").expect("a good file");
        let kerberos = service.kerberos.expect("a principal");
        assert_eq!((kerberos.principal.as_str(), kerberos.realm()), ("zookeeper/h@A.TEST", "A.TEST"));
        assert!(service.sasl && service.sasl_users.is_none() && warnings.is_empty(), "{warnings}");
        let (service, warnings) =
            parse("pole.sasl.jaasFile=/kerberos\npole.sasl.usersFile=/users").expect("a good file");
        assert!(service.kerberos.is_some() && service.sasl_users.is_none());
        assert!(warnings.contains("a server has one mechanism"), "{warnings}");
        let required = "pole.sasl.jaasFile=/kerberos\nsessionRequireClientSASLAuth=true";
        assert_eq!(parse(required).expect("a good file").0.required_schemes, ["sasl"]);
    }

    #[test]
    fn apaches_class_allows_acls_and_asks_for_users() {
        let class = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";
        let (service, warnings) = parse(class).expect("a good file");
        assert!(service.sasl && service.sasl_users.is_none());
        assert!(warnings.contains("there are no users of SASL"), "{warnings}");
        assert_eq!(parse(&format!("{class}pole.sasl.usersFile=/users")).expect("a good file").1, "");
    }

    #[test]
    fn there_may_be_many_superusers() {
        let (service, _) = parse("superUser=bob\nzookeeper.superUser.2=eve\nsuperUser.1=alice").expect("a good file");
        assert_eq!(service.sasl_super_users, ["alice", "bob", "eve"]);
    }

    #[test]
    fn required_schemes_must_be_of_use() {
        let required = |lines: &str| parse(lines).map(|(service, _)| service.required_schemes);
        assert_eq!(required("enforce.auth.schemes=digest"), Ok(Vec::new()));
        let two = "enforce.auth.enabled=true\nenforce.auth.schemes=digest, x509";
        assert_eq!(required(two), Ok(vec!["digest".to_owned(), "x509".to_owned()]));
        let sasl = "sessionRequireClientSASLAuth=true\nenforce.auth.schemes=digest\npole.sasl.usersFile=/users";
        assert_eq!(required(sasl), Ok(vec!["sasl".to_owned()]));
        // As in Apache: nobody is served until there are users.
        let class = "authProvider.1=SASLAuthenticationProvider\nsessionRequireClientSASLAuth=true";
        assert_eq!(required(class), Ok(vec!["sasl".to_owned()]));
        for (lines, why) in [
            ("enforce.auth.enabled=true", "needs enforce.auth.schemes"),
            ("enforce.auth.enabled=true\nenforce.auth.schemes=", "needs enforce.auth.schemes"),
            ("enforce.auth.enabled=true\nenforce.auth.schemes=kerberos", "there is no such scheme"),
            ("enforce.auth.enabled=true\nenforce.auth.schemes=sasl", "needs users"),
            ("sessionRequireClientSASLAuth=true", "zoo.cfg:3: sessionRequireClientSASLAuth=sasl: needs users"),
        ] {
            let said = required(lines).expect_err(lines);
            assert!(said.contains(why), "{lines}: {said}");
        }
    }
}
