//! Reads the users of SASL, or the server's own principal of Kerberos, from a JAAS file, as Apache's server does.
//!
//! ```text
//! Server {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!     user_bob="secret"
//!     user_alice="other";
//! };
//! Kerberos {
//!     com.sun.security.auth.module.Krb5LoginModule required
//!     useKeyTab=true keyTab="/etc/zookeeper.keytab" principal="zookeeper/one.example.com@EXAMPLE.COM";
//! };
//! ```
//!
//! The syntax is that of Java: sections of modules with options, quotes with escapes, and comments. Options of
//! `DigestLoginModule` whose name starts with `user_` are users. `keyTab` and `principal` of `Krb5LoginModule` count; what
//! else Java's module does (tickets, storing keys) is for clients or always so here. References to Java properties are
//! refused, since there are none.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::PathBuf;
use std::str::Chars;

use super::types::{Kerberos, Secret};

/// Names and passwords.
pub(super) type Users = BTreeMap<String, Secret>;

/// What is wrong, with the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JaasError {
    pub(super) line: usize,
    pub(super) why: String,
}

/// What a section says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) users: Users,
    pub(super) kerberos: Option<Kerberos>,
}

/// Reads a section.
pub(super) fn section(text: &str, section: &str) -> Result<Section, JaasError> {
    let mut tokens = Tokens { chars: text.chars().peekable(), line: 1 };
    let mut found = None;
    while let Some(token) = tokens.next()? {
        let name = tokens.text_of(token)?;
        tokens.expect('{')?;
        let modules = modules(&mut tokens, name == section)?;
        tokens.expect(';')?;
        if name == section && found.replace(modules).is_some() {
            return Err(tokens.error(format!("there is more than one section {section}")));
        }
    }
    found.ok_or_else(|| JaasError { line: 0, why: format!("has no section {section}") })
}

/// What the modules up to the brace that closes the section say. Those of other sections may be of any class.
fn modules(tokens: &mut Tokens<'_>, is_ours: bool) -> Result<Section, JaasError> {
    let mut section = Section::default();
    loop {
        let Some(class) = tokens.text_before('}')? else { return Ok(section) };
        let name = class.rsplit('.').next().filter(|_| is_ours);
        let flag = tokens.required()?;
        tokens.text_of(flag)?;
        let options = options(tokens)?;
        match name {
            None => {}
            Some("DigestLoginModule") => users(tokens, options, &mut section.users)?,
            Some("Krb5LoginModule") if section.kerberos.is_none() => {
                section.kerberos = Some(kerberos(tokens, options)?)
            }
            Some("Krb5LoginModule") => return Err(tokens.error("there is more than one Krb5LoginModule".to_owned())),
            Some(_) => {
                let why = format!("{class} is not supported; use DigestLoginModule or Krb5LoginModule");
                return Err(tokens.error(why));
            }
        }
    }
}

/// The options of a module, in order.
fn options(tokens: &mut Tokens<'_>) -> Result<Vec<(String, String)>, JaasError> {
    let mut options = Vec::new();
    while let Some(name) = tokens.text_before(';')? {
        tokens.expect('=')?;
        let value = tokens.required()?;
        options.push((name, tokens.text_of(value)?));
    }
    Ok(options)
}

fn users(tokens: &Tokens<'_>, options: Vec<(String, String)>, users: &mut Users) -> Result<(), JaasError> {
    for (name, password) in options {
        let Some(user) = name.strip_prefix("user_") else { continue };
        if password.contains("${") {
            return Err(tokens.error(format!("the password of {user} refers to a Java property")));
        }
        users.insert(user.to_owned(), Secret(password));
    }
    Ok(())
}

fn kerberos(tokens: &Tokens<'_>, options: Vec<(String, String)>) -> Result<Kerberos, JaasError> {
    let mut options: BTreeMap<_, _> = options.into_iter().collect();
    let (principal, keytab) = (options.remove("principal"), options.remove("keyTab"));
    if [&principal, &keytab].into_iter().flatten().any(|value| value.contains("${")) {
        return Err(tokens.error("an option of Krb5LoginModule refers to a Java property".to_owned()));
    }
    let keytab = keytab.map(|file| PathBuf::from(file.strip_prefix("FILE:").unwrap_or(&file)));
    let is_whole = |principal: &String| {
        let (name, realm) = principal.split_once('@').unwrap_or_default();
        !name.is_empty() && !realm.is_empty() && !realm.contains('@')
    };
    match principal.filter(is_whole) {
        Some(principal) => Ok(Kerberos { principal, keytab }),
        None => Err(tokens.error("Krb5LoginModule needs principal=\"zookeeper/HOST@REALM\"".to_owned())),
    }
}

enum Token {
    /// A word, or a quoted text without its quotes.
    Text(String),
    /// One of `{};=`.
    Sign(char),
}

struct Tokens<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Tokens<'_> {
    fn error(&self, why: String) -> JaasError {
        JaasError { line: self.line, why }
    }

    fn required(&mut self) -> Result<Token, JaasError> {
        self.next()?.ok_or_else(|| self.error("ends within a section".to_owned()))
    }

    /// The next text; none if there is this sign instead.
    fn text_before(&mut self, end: char) -> Result<Option<String>, JaasError> {
        match self.required()? {
            Token::Sign(sign) if sign == end => Ok(None),
            token @ (Token::Text(_) | Token::Sign(_)) => self.text_of(token).map(Some),
        }
    }

    fn text_of(&self, token: Token) -> Result<String, JaasError> {
        match token {
            Token::Text(text) => Ok(text),
            Token::Sign(sign) => Err(self.error(format!("a name or value is expected, not {sign}"))),
        }
    }

    fn expect(&mut self, sign: char) -> Result<(), JaasError> {
        match self.required()? {
            Token::Sign(found) if found == sign => Ok(()),
            Token::Sign(_) | Token::Text(_) => Err(self.error(format!("{sign} is expected"))),
        }
    }

    /// The next token; none at the end of the file.
    fn next(&mut self) -> Result<Option<Token>, JaasError> {
        loop {
            let Some(c) = self.advance() else { return Ok(None) };
            match c {
                c if c.is_whitespace() => {}
                '{' | '}' | ';' | '=' => return Ok(Some(Token::Sign(c))),
                '"' | '\'' => return self.quoted(c).map(|text| Some(Token::Text(text))),
                '/' if self.chars.peek() == Some(&'/') => while self.advance_if(|c| c != '\n').is_some() {},
                '/' if self.chars.peek() == Some(&'*') => self.skip_comment()?,
                first => {
                    let mut word = String::from(first);
                    while let Some(c) = self.advance_if(|c| !c.is_whitespace() && !"{};=\"'".contains(c)) {
                        word.push(c);
                    }
                    return Ok(Some(Token::Text(word)));
                }
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, JaasError> {
        let mut text = String::new();
        loop {
            match self.advance_if(|c| c != '\n') {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => text.extend(self.escaped()),
                Some(c) => text.push(c),
                None => return Err(self.error("a quote is not closed in its line".to_owned())),
            }
        }
    }

    /// The character after a backslash: a letter for a control character, up to three octal digits, or itself.
    fn escaped(&mut self) -> Option<char> {
        Some(match self.advance_if(|c| c != '\n')? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'v' => '\u{b}',
            first @ '0'..='7' => {
                let mut number = first.to_digit(8)?;
                let more = if first < '4' { 2 } else { 1 };
                for _ in 0..more {
                    let Some(digit) = self.advance_if(|c| c.is_digit(8)) else { break };
                    number = number * 8 + digit.to_digit(8)?;
                }
                char::from_u32(number)?
            }
            other => other,
        })
    }

    fn skip_comment(&mut self) -> Result<(), JaasError> {
        self.advance();
        loop {
            match self.advance() {
                Some('*') if self.chars.peek() == Some(&'/') => {
                    self.advance();
                    return Ok(());
                }
                Some(_) => {}
                None => return Err(self.error("a comment is not closed".to_owned())),
            }
        }
    }

    fn advance(&mut self) -> Option<char> {
        self.advance_if(|_| true)
    }

    fn advance_if(&mut self, accepts: impl Fn(char) -> bool) -> Option<char> {
        let c = self.chars.next_if(|c| accepts(*c))?;
        self.line += usize::from(c == '\n');
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let section = section(text, "Server").map_err(|error| format!("{}: {}", error.line, error.why))?;
        Ok(section.users.into_iter().map(|(user, password)| (user, password.0)).collect())
    }

    fn pair(user: &str, password: &str) -> (String, String) {
        (user.to_owned(), password.to_owned())
    }

    #[test]
    fn the_users_of_the_section_are_read() {
        let text = "Client { com.example.Other required user_eve=\"no\"; };\n// a comment\n/* and\nanother */\n\
                    Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  debug=true\n  \
                    user_bob=\"secret\"\n  user_alice='a\\\"b\\\\c\\101 {};'; };\n";
        assert_eq!(read(text), Ok(vec![pair("alice", "a\"b\\cA {};"), pair("bob", "secret")]));
        assert_eq!(section(text, "Client").map(drop).map_err(|error| error.line), Err(1));
        let two = "Server { DigestLoginModule required user_a=1; x.DigestLoginModule optional user_b=2; };";
        assert_eq!(read(two), Ok(vec![pair("a", "1"), pair("b", "2")]));
    }

    #[test]
    fn the_servers_own_principal_is_read() {
        let text = "Server {\n com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true\n \
                    keyTab=\"/etc/zk.keytab\" principal=\"zookeeper/one.test@A.TEST\"; };";
        let kerberos = section(text, "Server").expect("a section").kerberos.expect("a principal");
        assert_eq!(kerberos.principal, "zookeeper/one.test@A.TEST");
        assert_eq!(kerberos.keytab, Some(PathBuf::from("/etc/zk.keytab")));
        let both = "Server { Krb5LoginModule required principal=\"a@A\"; DigestLoginModule required user_a=1; };";
        let both = section(both, "Server").expect("a section");
        assert_eq!((both.users.len(), both.kerberos.expect("a principal").keytab), (1, None));
        let other = "Other { Krb5LoginModule required; }; Server { DigestLoginModule required user_a=1; };";
        assert_eq!(section(other, "Server").expect("a section").kerberos, None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, why) in [
            ("", "0: has no section Server"),
            ("Clients { };", "0: has no section Server"),
            ("Server {\n DigestLoginModule required user_bob=\"secret", "2: a quote is not closed"),
            ("Server {\n DigestLoginModule required user_bob=\"secret\n\"; };", "2: a quote is not closed"),
            ("Server {\n DigestLoginModule required user_bob=\"x\"\n};", "3: a name or value is expected, not }"),
            ("Server {\n DigestLoginModule required user_bob \"x\"; };", "2: = is expected"),
            ("Server { DigestLoginModule required; }", "1: ends within a section"),
            ("Server { Krb5LoginModule required; };", "1: Krb5LoginModule needs principal"),
            ("Server { Krb5LoginModule required principal=zookeeper; };", "1: Krb5LoginModule needs principal"),
            ("Server { Krb5LoginModule required principal=\"@A\"; };", "1: Krb5LoginModule needs principal"),
            (
                "Server { Krb5LoginModule required principal=\"a@A\" keyTab=\"${x}\"; };",
                "1: an option of Krb5LoginModule",
            ),
            (
                "Server { Krb5LoginModule required principal=\"a@A\"; Krb5LoginModule required principal=\"b@A\"; };",
                "1: there is more than one Krb5LoginModule",
            ),
            ("Server { x.Y required; };", "1: x.Y is not supported"),
            ("Server { };\nServer { };", "2: there is more than one section"),
            ("Server { DigestLoginModule required user_bob=\"${x}\"; };", "1: the password of bob refers"),
            ("/* Server", "1: a comment is not closed"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.starts_with(why), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(Server|DigestLoginModule|Krb5LoginModule|required|user_a|principal|[{};=\"'/*\\\\ \\n]|\\PC)*") {
            let _ = section(&text, "Server");
        }
    }
}
