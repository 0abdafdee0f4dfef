//! Rules as the workers load them, compiled once here so that what is wrong with one is told before anything changes; and
//! what rules look things up in.

use super::Compiler;
use crate::rules::{Geography, Limits, RuleSet, World};
use ::rules::data_group::{DataGroup, Kind};
use ::rules::{Diagnostic, Engine, RuleSource, Severity};
use model::{DataGroupType, Name};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Rules that stay from one snapshot to the next.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// Of each virtual: the names and texts, and what was made of them.
    sets: BTreeMap<Name, (Texts, Arc<RuleSet>)>,
    sources: HashMap<Name, Arc<RuleSource>>,
}

type Texts = Vec<(Name, Arc<[u8]>)>;

impl Compiler<'_> {
    /// The rules of a virtual; the outer `None` if they are no good.
    #[expect(
        clippy::option_option,
        reason = "the inner one is a virtual without rules"
    )]
    pub(super) fn rules(
        &mut self,
        name: &Name,
        config: &model::Virtual,
    ) -> Option<Option<Arc<RuleSet>>> {
        if config.rules.is_empty() {
            return Some(None);
        }
        let texts = config.rules.iter().filter_map(|rule| {
            let text = &self.config.rules.get(rule.as_str())?.text;
            Some((rule.0.clone(), Arc::clone(text)))
        });
        let texts: Texts = texts.collect();
        if let Some((known, set)) = self.before.rules.sets.get(name)
            && *known == texts
        {
            let kept = (texts, Arc::clone(set));
            self.kept.rules.sets.insert(name.clone(), kept);
            return Some(Some(Arc::clone(set)));
        }
        let sources = texts.iter().map(|(name, text)| self.source(name, text));
        let sources: Vec<_> = sources.collect::<Vec<_>>();
        let limits = Limits::of(&self.config.rule_limits);
        if let Err(problems) = Engine::new(limits.for_engine(), 0).load(&sources) {
            for problem in problems {
                self.problem(&problem);
            }
            return None;
        }
        let set = Arc::new(RuleSet::new(sources));
        let kept = (texts, Arc::clone(&set));
        self.kept.rules.sets.insert(name.clone(), kept);
        Some(Some(set))
    }

    /// What rules look things up in.
    pub(super) fn world(&mut self) -> World {
        let mut groups = HashMap::new();
        for (name, group) in &self.config.data_groups {
            match data_group(group) {
                Ok(made) => drop(groups.insert(name.to_string(), Arc::new(made))),
                Err(problem) => {
                    let at = match &group.file {
                        Some(file) => file.as_path().display().to_string(),
                        None => format!("data_groups.{name}"),
                    };
                    self.error(at, problem);
                }
            }
        }
        let mut databases = Vec::new();
        for file in &self.config.geography.files {
            match Geography::open(file.as_path()) {
                Ok(database) => databases.push(database),
                Err(error) => self.error(
                    "geography",
                    format!("{}: {error}", file.as_path().display()),
                ),
            }
        }
        let files = self.config.ifiles.iter();
        let files = files.map(|(name, file)| (name.to_string(), Arc::clone(&file.content)));
        let reputation = self.config.reputation.iter().map(|list| {
            let prefixes = list.prefixes.iter().copied().collect();
            (list.category.clone(), prefixes)
        });
        World {
            limits: Limits::of(&self.config.rule_limits),
            groups,
            files: files.collect(),
            geography: Geography::new(databases),
            reputation: reputation.collect(),
        }
    }

    /// A rule's text for the engine: the same one as long as the text is the same, with its warnings told once.
    fn source(&mut self, name: &Name, text: &Arc<[u8]>) -> Arc<RuleSource> {
        if let Some(source) = self.kept.rules.sources.get(name) {
            return Arc::clone(source);
        }
        let known = self.before.rules.sources.get(name);
        let source = match known.filter(|known| known.text == *text) {
            Some(known) => Arc::clone(known),
            None => Arc::new(RuleSource {
                name: name.as_str().into(),
                text: Arc::clone(text),
            }),
        };
        for problem in ::rules::check(&source) {
            if problem.severity == Severity::Warning {
                let (at, text) = self.place(&problem);
                self.warnings.push(format!("{at}: {text}"));
            }
        }
        let kept = Arc::clone(&source);
        self.kept.rules.sources.insert(name.clone(), kept);
        source
    }

    fn problem(&mut self, problem: &Diagnostic) {
        let (at, text) = self.place(problem);
        self.error(at, text);
    }

    /// Where something is wrong with a rule, and what.
    fn place(&self, problem: &Diagnostic) -> (String, String) {
        let Diagnostic {
            rule,
            line,
            column,
            message,
            hint,
            ..
        } = problem;
        let file = self
            .config
            .rules
            .get(rule.as_str())
            .and_then(|r| r.file.as_ref());
        let at = match file {
            Some(file) => format!("{}:{line}:{column}", file.as_path().display()),
            None => format!("rules.{rule}, line {line} of its text, column {column}"),
        };
        let text = match hint {
            Some(hint) => format!("rule {rule}: {message} ({hint})"),
            None => format!("rule {rule}: {message}"),
        };
        (at, text)
    }
}

fn data_group(group: &model::DataGroup) -> Result<DataGroup, String> {
    let kind = match group.kind {
        DataGroupType::String => Kind::String,
        DataGroupType::Integer => Kind::Integer,
        DataGroupType::Address => Kind::Address,
    };
    let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if group.file.is_some() {
        let file = DataGroup::parse_file(Some(kind), &group.content);
        let file = file.map_err(|error| error.to_string())?;
        let from_file = file.records().iter();
        records.extend(from_file.map(|r| (r.name.to_vec(), r.value.to_vec())));
    }
    let own = group.records.iter();
    records
        .extend(own.map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())));
    DataGroup::new(kind, records).map_err(|error| error.to_string())
}
