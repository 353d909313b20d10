//! Starts the program; everything is in the library.

fn main() -> std::process::ExitCode {
    reenact_server::cli::main()
}
