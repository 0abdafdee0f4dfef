//! Origin and load as parts of a measuring program, which starts itself for them so that they can be pinned.

use anyhow::Result;
use traffic::http::{Stop, load, origin};

/// What a measuring program starts of itself.
#[derive(clap::Subcommand)]
pub enum Part {
    /// Answer requests
    Origin(origin::Args),
    /// Ask
    Load(load::Args),
}

impl Part {
    /// Serve until killed, or ask and print the report.
    ///
    /// # Errors
    /// If origin or load cannot start or go on.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Origin(args) => Ok(origin::Origin::bind(args)?.run(&Stop::default())?),
            Self::Load(args) => {
                let report = load::run(args, &Stop::default())?;
                if args.json {
                    println!("{}", serde_json::to_string(&report)?);
                } else {
                    println!("{report}");
                }
                Ok(())
            }
        }
    }
}
