//! Where snapshots go: a place that will not do is known at the start, and a loss is reported.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tidegate_testbed::Daemon;

use crate::stand::{SOON, Tidegate, command, policy};

/// What is said about a place that will not do; it must not begin at all.
fn refused(place: &Path) -> String {
    let mut serve = command();
    serve.args(["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--snapshot"]);
    let output = serve.arg(place).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&*place.to_string_lossy()), "{said}");
    said
}

#[test]
fn a_place_that_will_not_do_stops_the_start_and_stays_as_it_is() {
    let home = Daemon::builder().unwrap();
    let folder = home.folder();
    let kept = folder.join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("precious"), "bytes").unwrap();
    assert!(refused(&kept).contains("it is a folder; name a file in it"));
    assert_eq!(fs::read_to_string(kept.join("precious")).unwrap(), "bytes");

    assert!(refused(&folder.join("nowhere/states")).contains("give --snapshot another place"));

    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(refused(&pipe).contains("it is no file; name one"));

    let link = folder.join("link");
    symlink(folder.join("nowhere/states"), &link).unwrap();
    refused(&link);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_link_leads_to_the_file_and_stays_a_link() {
    let home = Daemon::builder().unwrap();
    let folder = home.folder();
    let (file, link) = (folder.join("states"), folder.join("link"));
    symlink("states", &link).unwrap();
    // No snapshot: it is set aside where the link leads.
    fs::write(&file, "something else").unwrap();
    let flags = ["--snapshot", link.to_str().unwrap()];
    let mut server = Tidegate::start(&policy(5), &flags).unwrap();
    assert!(server.daemon.stop(SOON).unwrap().success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_ne!(fs::read(&file).unwrap(), b"something else");
    let aside = |name: &str| name.starts_with("states.damaged-");
    let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    assert_eq!(names.filter(|name| aside(&name.to_string_lossy())).count(), 1);
}

#[test]
fn a_snapshot_that_is_lost_at_the_end_is_an_exit_with_1() {
    let home = Daemon::builder().unwrap();
    let folder = home.folder();
    let place = folder.join("here");
    fs::create_dir(&place).unwrap();
    let flags = ["--snapshot", &*place.join("states").to_string_lossy(), "--snapshot-every", "1h"]
        .map(str::to_owned);
    let flags = flags.each_ref().map(|flag| &**flag);
    let mut server = Tidegate::start(&policy(5), &flags).unwrap();
    fs::remove_dir_all(&place).unwrap();
    assert_eq!(server.daemon.stop(SOON).unwrap().code(), Some(1));
    assert!(server.daemon.log().contains("no snapshot was saved"), "{}", server.daemon.log());
}
