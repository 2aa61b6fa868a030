//! What is TOML's own.

use super::*;

#[test]
fn values_are_in_the_order_of_the_file() {
    check(
        Format::Toml,
        "z = 1\na.y = 2\na.x = 3\n[m]\nb = 1\n[[l]]\nq = 1\n[[l]]\nq = 2\n[m.a]\n",
        "{z: 1, a: {y: 2, x: 3}, m: {b: 1, a: {}}, l: [{q: 1}, {q: 2}]}",
    );
}

#[test]
fn numbers_and_dates_are_read() {
    check(
        Format::Toml,
        "a = [1_000, 0x1F, 0o17, 0b11, +5, -5, 1.50, inf, 1e3, 99999999999999999999]",
        "{a: [1000, 31, 15, 3, 5, -5, ~1.50, ~inf, ~1e3, ~99999999999999999999]}",
    );
    check(
        Format::Toml,
        "a = 1979-05-27T07:32:00Z\nb = 07:32:00\n",
        r#"{a: "1979-05-27T07:32:00Z", b: "07:32:00"}"#,
    );
}

#[test]
fn a_field_given_twice_is_named() {
    check(
        Format::Toml,
        "x = 0\n[a]\nx = 1\ny = 2\n  x= 3\n",
        "24..25: the field `x` is given twice | the first is in line 3: keep one of them",
    );
    check(
        Format::Toml,
        "[a]\nx = 1\n[b]\nx = 1\n[a]\n",
        "21..22: the field `a` is given twice | the first is in line 1: keep one of them",
    );
    check(
        Format::Toml,
        "x = 0\n[a]\ny = {x = 1, x = 2}\n",
        "22..23: the field `x` is given twice | keep one of them",
    );
}

#[test]
fn what_is_no_toml_is_pointed_at() {
    check(
        Format::Toml,
        "a = 1\nb = yes\n",
        "10..13: the file is not valid TOML: string values must be quoted, \
         expected literal string",
    );
}
