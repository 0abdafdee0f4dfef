//! From the files to a configuration in force: read, checked, applied as a whole or not at all.

use crate::files::{Files, Watch};
use crate::process::Process;
use crate::server::{Server, ServerError};
use crate::view::{Reload, unix_seconds};
use proxy::{Applied, ApplyError, Engine};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tracing::{error, info};

/// Why a configuration was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It is wrong.
    #[error("{0}")]
    Read(model::Errors),
    /// It cannot be put to use.
    #[error("{0}")]
    Apply(#[from] ApplyError),
    /// What is beside the engine cannot be as it asks.
    #[error("{0}")]
    Beside(String),
    /// The admin interface cannot be had as it asks.
    #[error("{0}")]
    Admin(#[from] ServerError),
    /// The thread that was to do it ended.
    #[error("reading the configuration ended in a panic; the process's log has it")]
    Panicked,
}

/// Reads the configuration at `path`; tells in any case which files belong to it.
pub fn read(path: &Path) -> (Result<model::Config, model::Errors>, Watch) {
    let files = Files::new();
    let config = model::parse(path, &files);
    (config, files.watch())
}

/// What a configuration is for beside the engine.
pub trait Beside: Send + Sync {
    /// Puts it in force: whole, or not at all. Says why not, for people.
    fn apply(&self, config: &model::Config) -> Result<(), String>;
}

/// Reads the configuration anew and puts it in force, in `beside` and in the engine. `cause` is told in the log: who asked.
/// Returns the files to watch from now on, and what came of it.
pub async fn reload(
    engine: &Arc<Engine>,
    beside: &Arc<dyn Beside>,
    process: &Process,
    server: &mut Server,
    cause: &str,
) -> (Option<Watch>, Result<Arc<model::Config>, String>) {
    let path = process.config.clone();
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    let (result, watch) = match read {
        Ok((Ok(config), watch)) => (
            put_in_force(engine, beside, server, config).await,
            Some(watch),
        ),
        Ok((Err(errors), watch)) => (Err(Failure::Read(errors)), Some(watch)),
        Err(_) => (Err(Failure::Panicked), None),
    };
    let mut note = Reload {
        at: unix_seconds(SystemTime::now()),
        cause: cause.to_owned(),
        ok: result.is_ok(),
        generation: engine.snapshot().generation,
        changes: Vec::new(),
        error: None,
    };
    let outcome = match result {
        Ok(applied) => {
            info!(
                cause,
                generation = applied.generation,
                "configuration reloaded"
            );
            for change in &applied.changes {
                info!("{change}");
            }
            note.changes = applied.changes;
            Ok(Arc::clone(&engine.snapshot().config))
        }
        Err(failure) => {
            let text = failure.to_string();
            error!(
                cause,
                "configuration not reloaded; what was in force stays:\n{text}"
            );
            note.error = Some(text.clone());
            Err(text)
        }
    };
    process.note_reload(note);
    (watch, outcome)
}

async fn put_in_force(
    engine: &Arc<Engine>,
    beside: &Arc<dyn Beside>,
    server: &mut Server,
    config: model::Config,
) -> Result<Applied, Failure> {
    let admin = server.prepare(&config.admin)?;
    let (engine, beside) = (Arc::clone(engine), Arc::clone(beside));
    let applied = tokio::task::spawn_blocking(move || both(&engine, &*beside, config)).await;
    let applied = applied.map_err(|_| Failure::Panicked)??;
    server.replace(admin);
    Ok(applied)
}

fn both(engine: &Engine, beside: &dyn Beside, config: model::Config) -> Result<Applied, Failure> {
    let before = Arc::clone(&engine.snapshot().config);
    beside.apply(&config).map_err(Failure::Beside)?;
    engine.apply(config).map_err(|failure| {
        if let Err(error) = beside.apply(&before) {
            error!("what was in force before cannot be put in force again: {error}");
        }
        failure.into()
    })
}
