//! What CI and people run: `cargo xtask COMMAND`.

mod bench;
mod bpf;
mod ci;
mod dist;
mod interop;
mod labs;
mod schema;
mod shell;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, checks and measures transom.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Set up what the tests need and run them all, with a summary.
    Test {
        /// Passed on to `cargo test --workspace`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Everything that must hold before a change goes in.
    Ci,
    /// Check the habits of this repository.
    Tidy {
        /// Print which of our crates uses which, instead.
        #[arg(long)]
        graph: bool,
    },
    /// Run the example labs as every build of Windows, and kill them at random.
    Labs {
        /// One example only, and no kills.
        example: Option<String>,
    },
    /// Build the Windows files into dist/.
    Dist,
    /// Run somebody else's programs against us.
    Interop {
        /// Which: hcsshim, wine, cni, runtime, kubernetes, agents, joined, windows-agents or lab.
        peer: String,
    },
    /// Read the tables of Kubernetes' types anew from these types; needs Go.
    Schema {
        /// Change nothing, and fail if a table is not what the types say.
        #[arg(long)]
        check: bool,
    },
    /// Build the programs for the kernel anew; needs clang, llvm and libbpf's headers.
    Bpf {
        /// Change nothing, and fail if the object is not what the source says.
        #[arg(long)]
        check: bool,
    },
    /// Run a benchmark, in release mode.
    Bench {
        /// Which: api, cni, hns, proxy or vswitch.
        name: String,
        /// Passed on to the benchmark, such as --quick.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test { arguments } => test::run(&arguments),
        Command::Ci => ci::run(),
        Command::Tidy { graph: true } => tidy::graph(),
        Command::Tidy { graph: false } => tidy::run(),
        Command::Labs { example: None } => labs::run(),
        Command::Labs { example: Some(example) } => labs::run_one(&example),
        Command::Dist => dist::run(),
        Command::Interop { peer } => interop::run(&peer),
        Command::Schema { check } => schema::run(check),
        Command::Bpf { check } => bpf::run(check),
        Command::Bench { name, arguments } => bench::run(&name, &arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            shell::complain(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}
