//! Reads the users of SASL from a JAAS file, as Apache's server does.
//!
//! ```text
//! Server {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!     user_bob="secret"
//!     user_alice="other";
//! };
//! ```
//!
//! The syntax is that of Java: sections of modules with options, quotes with escapes, and comments. Options whose name
//! starts with `user_` are users; others are skipped. References to Java properties are refused, since there are none.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use super::types::Secret;

/// Names and passwords.
pub(super) type Users = BTreeMap<String, Secret>;

/// What is wrong, with the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JaasError {
    pub(super) line: usize,
    pub(super) why: String,
}

/// The users of a section.
pub(super) fn users(text: &str, section: &str) -> Result<Users, JaasError> {
    let mut tokens = Tokens { chars: text.chars().peekable(), line: 1 };
    let mut found = None;
    while let Some(token) = tokens.next()? {
        let name = tokens.text_of(token)?;
        tokens.expect('{')?;
        let users = modules(&mut tokens, name == section)?;
        tokens.expect(';')?;
        if name == section && found.replace(users).is_some() {
            return Err(tokens.error(format!("there is more than one section {section}")));
        }
    }
    found.ok_or_else(|| JaasError { line: 0, why: format!("has no section {section}") })
}

/// The users of the modules up to the brace that closes the section. Modules of other sections may be of any class.
fn modules(tokens: &mut Tokens<'_>, is_ours: bool) -> Result<Users, JaasError> {
    let mut users = Users::new();
    loop {
        let Some(class) = tokens.text_before('}')? else { return Ok(users) };
        if is_ours && class.rsplit('.').next() == Some("Krb5LoginModule") {
            return Err(tokens.error("Kerberos (GSSAPI) is not supported; use DigestLoginModule".to_owned()));
        }
        if is_ours && class.rsplit('.').next() != Some("DigestLoginModule") {
            return Err(tokens.error(format!("{class} is not supported; use DigestLoginModule")));
        }
        let flag = tokens.required()?;
        tokens.text_of(flag)?;
        while let Some(name) = tokens.text_before(';')? {
            tokens.expect('=')?;
            let value = tokens.required()?;
            let value = tokens.text_of(value)?;
            if let Some(user) = name.strip_prefix("user_").filter(|_| is_ours) {
                if value.contains("${") {
                    return Err(tokens.error(format!("the password of {user} refers to a Java property")));
                }
                users.insert(user.to_owned(), Secret(value));
            }
        }
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
        let users = users(text, "Server").map_err(|error| format!("{}: {}", error.line, error.why))?;
        Ok(users.into_iter().map(|(user, password)| (user, password.0)).collect())
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
        assert_eq!(users(text, "Client").map(|users| users.len()).map_err(|error| error.line), Err(1));
        let two = "Server { DigestLoginModule required user_a=1; x.DigestLoginModule optional user_b=2; };";
        assert_eq!(read(two), Ok(vec![pair("a", "1"), pair("b", "2")]));
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
            ("Server { com.sun.security.auth.module.Krb5LoginModule required; };", "1: Kerberos (GSSAPI)"),
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
        fn no_text_causes_a_panic(text in "(Server|DigestLoginModule|required|user_a|[{};=\"'/*\\\\ \\n]|\\PC)*") {
            let _ = users(&text, "Server");
        }
    }
}
