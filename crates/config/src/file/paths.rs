//! `paths`: how paths are read that servers read in different ways.

use super::Reading;
use crate::path::Servers;
use crate::read::{Fields, Table, Takes, table_fields};
use crate::source::Node;

pub(super) static PATHS: Table = Table {
    what: "`paths`",
    about: "How paths are read that servers read in different ways.",
    fields: table_fields! {
        "strict": Takes::Flag,
            "Whether your server tells upper from lower case, and treats `;`, `\\`, blanks and \
             dots in a name as letters. With `false`, a rule that restricts is for every path \
             that a server may take for its own, and one that exempts only for the path itself. \
             Default: `false`.";
    },
    required: &[],
};

impl Reading<'_> {
    pub(super) fn read_servers(&mut self, node: &Node) -> Servers {
        let Some(fields) = Fields::of(node, &PATHS, &mut self.problems) else {
            return Servers::Any;
        };
        let is_strict = fields.get("strict").and_then(|it| it.flag("strict", &mut self.problems));
        if is_strict == Some(true) { Servers::Strict } else { Servers::Any }
    }
}
