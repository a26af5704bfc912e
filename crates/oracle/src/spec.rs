//! The configuration of an oracle, a name and parameters, and how to build the oracle from it.
//!
//! The input is text such as `latency`, `latency/1ms`, `preference=3,1,2` or
//! `combined=latency/10ms,recovery/50ms,history`, or a name with a map of parameters (`pole.oracle.*`, `PUT
//! /v1/oracle`). The output is a `Box<dyn Oracle>`, or an error that says what is wrong and what is allowed. A
//! parameter that an oracle does not know is an error.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::class::Class;
use crate::oracle::Oracle;
use crate::oracles::{
    Combined, Consensus, Custom, History, InvalidPart, Latency, Part, Preference, Recovery, Request, Rotating,
    WorstCase,
};

/// The name of an oracle and its parameters, not yet validated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The value of `pole.oracle`.
    pub name: String,
    /// `class`, `preference` and `combined`, if the oracle has them.
    pub params: BTreeMap<String, String>,
}

impl Spec {
    /// All valid values of `pole.oracle`.
    pub const NAMES: [&str; 10] = [
        "history",
        "request",
        "consensus",
        "latency",
        "worst-case",
        "rotating",
        "preference",
        "recovery",
        "combined",
        "custom",
    ];

    /// Creates a spec without parameters.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), params: BTreeMap::new() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, param: &str, value: &str) -> Self {
        self.params.insert(param.to_owned(), value.to_owned());
        self
    }

    /// Parses the one-line form: `name`, `name/class`, `preference=…`, `combined=…`.
    ///
    /// # Errors
    /// Same as [`Spec::build`]: a parsed spec can be built.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let spec = if let Some((name, value)) = text.split_once('=') {
            Self::new(name.trim()).with(name.trim(), value.trim())
        } else if let Some((name, class)) = text.split_once('/') {
            Self::new(name.trim()).with("class", class.trim())
        } else {
            Self::new(text)
        };
        spec.build().map(|_| spec)
    }

    /// Builds the oracle.
    ///
    /// # Errors
    /// If the name is unknown, or a parameter is unknown, missing or invalid.
    pub fn build(&self) -> Result<Box<dyn Oracle>, SpecError> {
        self.check_params()?;
        match self.params.get("class") {
            Some(class) => combine(vec![self.part(&self.name, Some(class))?]),
            None => self.single(&self.name),
        }
    }

    fn check_params(&self) -> Result<(), SpecError> {
        let known: &[&str] = match self.name.as_str() {
            "request" | "consensus" | "latency" | "worst-case" | "recovery" => &["class"],
            "preference" => &["preference"],
            "combined" => &["combined", "preference"],
            _ => &[],
        };
        match self.params.keys().find(|param| !known.contains(&param.as_str())) {
            // For an unknown name, the error about the name is more helpful.
            Some(param) if Self::NAMES.contains(&self.name.as_str()) => {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(SpecError::UnknownParam { name: self.name.clone(), param: param.clone(), known })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn single(&self, name: &str) -> Result<Box<dyn Oracle>, SpecError> {
        Ok(match name {
            "history" => Box::new(History),
            "request" => Box::new(Request),
            "consensus" => Box::new(Consensus),
            "latency" => Box::new(Latency),
            "worst-case" => Box::new(WorstCase),
            "rotating" => Box::new(Rotating),
            "recovery" => Box::new(Recovery),
            "custom" => Box::new(Custom),
            "preference" => Box::new(Preference::parse(self.param("preference")?)?),
            "combined" => return self.combined(),
            _ => return Err(SpecError::UnknownName { name: name.to_owned() }),
        })
    }

    fn combined(&self) -> Result<Box<dyn Oracle>, SpecError> {
        let parts = self.param("combined")?.split(',').map(|part| match part.trim().split_once('/') {
            Some((name, class)) => self.part(name.trim(), Some(class.trim())),
            None => self.part(part.trim(), None),
        });
        combine(parts.collect::<Result<_, _>>()?)
    }

    fn part(&self, name: &str, class: Option<&str>) -> Result<Part, SpecError> {
        if name == "combined" {
            return Err(SpecError::Nested);
        }
        let class = class.map(|class| parse_class(name, class)).transpose()?;
        Ok(Part { oracle: self.single(name)?, class })
    }

    fn param(&self, param: &'static str) -> Result<&str, SpecError> {
        let missing = || SpecError::MissingParam { name: self.name.clone(), param };
        self.params.get(param).map(String::as_str).filter(|text| !text.trim().is_empty()).ok_or_else(missing)
    }
}

impl fmt::Display for Spec {
    /// The one-line form. For `combined` with a `preference` parameter, that parameter is omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.params.get(&self.name), self.params.get("class")) {
            (Some(value), _) => write!(f, "{}={value}", self.name),
            (None, Some(class)) => write!(f, "{}/{class}", self.name),
            (None, None) => f.write_str(&self.name),
        }
    }
}

fn combine(parts: Vec<Part>) -> Result<Box<dyn Oracle>, SpecError> {
    Ok(Box::new(Combined::new(parts)?))
}

/// `10ms`, `500us`, `1s` for oracles that score time; `10%` for these and for rates.
fn parse_class(oracle: &str, text: &str) -> Result<Class, SpecError> {
    let bad =
        || SpecError::Class { oracle: oracle.to_owned(), text: text.to_owned(), allowed: allowed_classes(oracle) };
    let micros = |digits: &str, unit: u32| {
        let width = digits.trim().parse::<u32>().ok().and_then(|count| count.checked_mul(unit));
        width.filter(|width| *width > 0).map(Class::Micros)
    };
    let class = if let Some(digits) = text.strip_suffix('%') {
        digits.trim().parse().ok().filter(|percent| (1..=100).contains(percent)).map(Class::Percent)
    } else if let Some(digits) = text.strip_suffix("us") {
        micros(digits, 1)
    } else if let Some(digits) = text.strip_suffix("ms") {
        micros(digits, 1_000)
    } else {
        text.strip_suffix('s').and_then(|digits| micros(digits, 1_000_000))
    };
    match (oracle, class.ok_or_else(bad)?) {
        ("consensus" | "latency" | "worst-case" | "recovery", class) => Ok(class),
        ("request", class @ Class::Percent(_)) => Ok(class),
        (_, Class::Micros(_) | Class::Percent(_)) => Err(bad()),
    }
}

fn allowed_classes(oracle: &str) -> &'static str {
    match oracle {
        "consensus" | "latency" | "worst-case" | "recovery" => "a time such as 10ms or 500us, or 1% to 100%",
        "request" => "1% to 100%",
        _ => "none: it is not cut into classes",
    }
}

/// Why a spec is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no such oracle.
    #[error("unknown oracle \"{name}\": use one of {}", Spec::NAMES.join(", "))]
    UnknownName {
        /// The given name.
        name: String,
    },
    /// The oracle does not have this parameter.
    #[error("oracle {name} has no parameter \"{param}\" (it has: {known})")]
    UnknownParam {
        /// The oracle.
        name: String,
        /// The given parameter.
        param: String,
        /// The parameters that it has.
        known: String,
    },
    /// A required parameter is missing.
    #[error("oracle {name} needs the parameter {param} (pole.oracle.{param})")]
    MissingParam {
        /// The oracle.
        name: String,
        /// The missing parameter.
        param: &'static str,
    },
    /// The class cannot be parsed, or the oracle does not support it.
    #[error("class \"{text}\" of {oracle}: allowed is {allowed}")]
    Class {
        /// The oracle.
        oracle: String,
        /// The given class.
        text: String,
        /// The allowed classes.
        allowed: &'static str,
    },
    /// The list or the weights cannot be parsed.
    #[error("preference \"{text}\": {why}; write 3,1,2 or 3:10,1:5")]
    Preference {
        /// The given text.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// A combination contains a combination.
    #[error("combined cannot contain combined: name the oracles in one list")]
    Nested,
    /// The parts cannot be combined.
    #[error(transparent)]
    Part(#[from] InvalidPart),
}
