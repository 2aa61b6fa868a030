//! Every command of this door: its name, its arguments and what it is for.

/// One command.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) word: Word,
    /// In lower case.
    pub(super) name: &'static str,
    /// How many arguments, the name included; at least so many if it is negative.
    pub(super) arity: i8,
    pub(super) usage: &'static str,
    pub(super) summary: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Word {
    Auth,
    Check,
    Client,
    ClThrottle,
    Cluster,
    Command,
    Config,
    Echo,
    Hello,
    Help,
    Info,
    Peek,
    Ping,
    Quit,
    Reset,
    ResetKeys,
    Select,
    Throttle,
    Transaction,
}

pub(super) const COMMANDS: &[Spec] = &[
    spec(Word::ClThrottle, "cl.throttle", -5, LIMITED, "Decides by the limit it names: redis-cell"),
    spec(Word::Throttle, "throttle", -5, LIMITED, "Decides by the limit it names: throttlecrab"),
    spec(Word::Check, "tidegate.check", -1, ASKED, "Decides about a request by the policy"),
    spec(Word::Peek, "tidegate.peek", -1, ASKED, "What a check would say, without charging"),
    spec(
        Word::ResetKeys,
        "tidegate.reset",
        -1,
        "[RULE name] and what a check takes",
        "Makes the keys of a request fresh; for admins",
    ),
    spec(Word::Help, "tidegate.help", 1, "", "This list"),
    spec(Word::Auth, "auth", -2, "[user] token", "Says who is asking"),
    spec(Word::Client, "client", -2, "ID | INFO | GETNAME | SETNAME name | …", "The connection"),
    spec(Word::Cluster, "cluster", -2, "…", "There is none: an error"),
    spec(Word::Command, "command", -1, "[COUNT | DOCS | INFO | LIST]", "The commands, for clients"),
    spec(Word::Config, "config", -2, "GET name", "Nothing can be set here: an empty list"),
    spec(Word::Transaction, "discard", 1, "", "Not supported: an error"),
    spec(Word::Echo, "echo", 2, "text", "Says the same"),
    spec(Word::Transaction, "exec", 1, "", "Not supported: an error"),
    spec(Word::Hello, "hello", -1, "[2 | 3 [AUTH user token] [SETNAME name]]", "The protocol"),
    spec(Word::Info, "info", -1, "[section …]", "The server, as text"),
    spec(Word::Transaction, "multi", 1, "", "Not supported: an error"),
    spec(Word::Ping, "ping", -1, "[text]", "Says PONG, or the text"),
    spec(Word::Quit, "quit", -1, "", "Ends the connection"),
    spec(Word::Cluster, "readonly", 1, "", "There is no cluster: an error"),
    spec(Word::Cluster, "readwrite", 1, "", "There is no cluster: an error"),
    spec(Word::Reset, "reset", 1, "", "Makes the connection a new one"),
    spec(Word::Select, "select", 2, "0", "There is one database"),
    spec(Word::Transaction, "unwatch", 1, "", "Not supported: an error"),
    spec(Word::Transaction, "watch", -2, "key …", "Not supported: an error"),
];

const LIMITED: &str = "key max_burst count period [quantity]";

const ASKED: &str = "[COST n] [METHOD m] [PATH p] [HOST h] [IP a] [HEADER name value]… \
                     [ATTRIBUTE name value]…";

const fn spec(
    word: Word,
    name: &'static str,
    arity: i8,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec { word, name, arity, usage, summary }
}

/// The command of this name, in whatever case.
pub(super) fn find(name: &[u8]) -> Option<&'static Spec> {
    COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Spec {
    /// Whether it takes so many arguments, its name included.
    pub(super) fn takes(&self, arguments: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arity <= arguments } else { arity == arguments }
    }

    /// Whether its second argument is a key.
    pub(super) const fn has_key(&self) -> bool {
        matches!(self.word, Word::ClThrottle | Word::Throttle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_whatever_case() {
        assert_eq!(find(b"Cl.Throttle").map(|spec| spec.word), Some(Word::ClThrottle));
        assert!(find(b"get").is_none());
        assert!(find(b"").is_none());
    }

    #[test]
    fn names_are_in_lower_case_and_different() {
        for (at, spec) in COMMANDS.iter().enumerate() {
            assert_eq!(spec.name, spec.name.to_ascii_lowercase());
            assert!(COMMANDS[..at].iter().all(|other| other.name != spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn a_negative_arity_is_a_minimum() {
        let takes = |name: &[u8], arguments| find(name).unwrap().takes(arguments);
        assert!(takes(b"echo", 2) && !takes(b"echo", 1) && !takes(b"echo", 3));
        assert!(takes(b"cl.throttle", 5) && takes(b"cl.throttle", 6) && !takes(b"throttle", 4));
    }
}
