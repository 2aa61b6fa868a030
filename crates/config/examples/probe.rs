fn main() {
    let p = std::env::args().nth(1).unwrap();
    match tidegate_config::Rules::from_path(p.as_ref()) {
        Ok(l) => println!("{} rules\n{}", l.rules.rules().len(), l.report),
        Err(e) => println!("{e}"),
    }
}
