//! Drops every message that a service does not reach, and with them the files that nobody needs.
//!
//! Envoy's files import each other for the sake of a few messages; 19 of them would be some
//! 9,000 lines of code, of which the rate limit service needs a few hundred.

use std::collections::BTreeSet;

use anyhow::Result;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The files with what `service` reaches, and nothing else.
pub(super) fn reached(all: &FileDescriptorSet, service: &str) -> Result<FileDescriptorSet> {
    let mut wanted = BTreeSet::new();
    let methods = all.file.iter().flat_map(|file| {
        let full = move |name: &str| format!("{}.{name}", file.package());
        let ours = file.service.iter().filter(move |it| full(it.name()) == service);
        ours.flat_map(|it| &it.method)
    });
    let mut open: Vec<String> =
        methods.flat_map(|it| [it.input_type(), it.output_type()].map(str::to_owned)).collect();
    anyhow::ensure!(!open.is_empty(), "there is no service `{service}`");
    while let Some(name) = open.pop() {
        if wanted.insert(name.clone()) {
            let uses = message(all, &name).map(used_by).unwrap_or_default();
            open.extend(uses);
        }
    }
    let mut file: Vec<FileDescriptorProto> = all.file.clone();
    for one in &mut file {
        keep(one, &wanted, service);
    }
    file.retain(|file| {
        !file.message_type.is_empty() || !file.enum_type.is_empty() || !file.service.is_empty()
    });
    let kept: BTreeSet<String> = file.iter().map(|file| file.name().to_owned()).collect();
    for one in &mut file {
        one.dependency.retain(|name| kept.contains(name));
        (one.public_dependency, one.weak_dependency) = (Vec::new(), Vec::new());
    }
    Ok(FileDescriptorSet { file })
}

/// Drops what is not wanted of a file, and what only tools of other languages read.
fn keep(file: &mut FileDescriptorProto, wanted: &BTreeSet<String>, service: &str) {
    let package = file.package().to_owned();
    let prefix = format!(".{package}.");
    file.message_type.retain_mut(|it| keep_message(it, &prefix, wanted));
    file.enum_type.retain(|it| wanted.contains(&format!("{prefix}{}", it.name())));
    file.service.retain(|it| format!("{package}.{}", it.name()) == service);
    file.extension.clear();
    file.source_code_info = None;
    file.options = None;
}

/// Whether a message is wanted, or one in it; of those in it, others are dropped.
fn keep_message(one: &mut DescriptorProto, prefix: &str, wanted: &BTreeSet<String>) -> bool {
    let name = format!("{prefix}{}", one.name());
    let inner = format!("{name}.");
    one.nested_type.retain_mut(|it| keep_message(it, &inner, wanted));
    one.enum_type.retain(|it| wanted.contains(&format!("{inner}{}", it.name())));
    wanted.contains(&name) || !one.nested_type.is_empty() || !one.enum_type.is_empty()
}

/// The types that a message has fields of.
fn used_by(message: &DescriptorProto) -> Vec<String> {
    let named = message.field.iter().filter_map(|field| field.type_name.clone());
    named.collect()
}

/// Finds a message by its full name, which starts with a dot.
fn message<'a>(all: &'a FileDescriptorSet, name: &str) -> Option<&'a DescriptorProto> {
    all.file.iter().find_map(|file| {
        let rest = name.strip_prefix(&format!(".{}.", file.package()))?;
        let mut parts = rest.split('.');
        let first = parts.next()?;
        let top = file.message_type.iter().find(|it| it.name() == first)?;
        parts.try_fold(top, |it, part| it.nested_type.iter().find(|it| it.name() == part))
    })
}
