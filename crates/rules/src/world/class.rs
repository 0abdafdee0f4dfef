//! `class`: looking things up in data groups, with the older `matchclass` and `findclass`.

use crate::command::{ANY, Command, Ctx};
use crate::data_group::{DataGroup, Kind, Operator};
use crate::fault::Fault;
use crate::regex::glob;
use crate::value::Value;
use std::sync::Arc;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("class", "option ?arg ...?", 1, ANY, class).differs(
        "of several records that starts_with or ends_with fits, class match finds the longest; records are in the order of the configuration",
    ),
    Command::new("matchclass", "item operator class", 3, 3, matchclass),
    Command::new("findclass", "string class ?separator?", 2, 3, findclass)
        .differs("finds the record whose name is the string"),
];

const OPTIONS: &[&str] = &[
    "anymore",
    "donesearch",
    "element",
    "exists",
    "get",
    "lookup",
    "match",
    "names",
    "nextelement",
    "search",
    "size",
    "startsearch",
    "type",
];

fn class(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let option = args[0].bytes();
    let rest = &args[1..];
    match &*option {
        b"match" => find(ctx, rest, true),
        b"search" => find(ctx, rest, false),
        b"lookup" => match rest {
            [item, name] => {
                let group = group(ctx, name)?;
                let found = group.find(&item.bytes());
                Ok(found.map(|at| value(&group, at)).unwrap_or_default())
            }
            _ => Err(Fault::usage("class lookup item class")),
        },
        b"element" => element(ctx, rest),
        b"names" => listed(ctx, rest, "names", Wanted::Name),
        b"get" => listed(ctx, rest, "get", Wanted::Element),
        b"exists" => match rest {
            [name] => Ok(Value::from(known(ctx, name).is_some())),
            _ => Err(Fault::usage("class exists class")),
        },
        b"size" => match rest {
            [name] => Ok(Value::from(group(ctx, name)?.len())),
            _ => Err(Fault::usage("class size class")),
        },
        b"type" => match rest {
            [name] => Ok(Value::from(match group(ctx, name)?.kind() {
                Kind::String => "string",
                Kind::Integer => "integer",
                Kind::Address => "ip",
            })),
            _ => Err(Fault::usage("class type class")),
        },
        b"startsearch" => match rest {
            [name] => {
                group(ctx, name)?;
                let walks = &mut ctx.session.walks;
                let id = walks.last().map_or(1, |(id, _)| id + 1);
                walks.push((id, 0));
                ctx.charge(16)?;
                Ok(Value::Int(id as i64))
            }
            _ => Err(Fault::usage("class startsearch class")),
        },
        b"anymore" => match rest {
            [name, id] => {
                let len = group(ctx, name)?.len();
                Ok(Value::from(*walk(ctx, id)? < len))
            }
            _ => Err(Fault::usage("class anymore class search_id")),
        },
        b"nextelement" => {
            let (flags, [name, id]) = flags(rest)? else {
                return Err(Fault::usage("class nextelement ?options? class search_id"));
            };
            let group = group(ctx, name)?;
            let place = walk(ctx, id)?;
            let at = *place;
            if at >= group.len() {
                return Ok(Value::Empty);
            }
            *place += 1;
            Ok(flags.wanted.unwrap_or(Wanted::Element).of(&group, at))
        }
        b"donesearch" => match rest {
            [name, id] => {
                group(ctx, name)?;
                walk(ctx, id)?;
                let id = id.int()?;
                ctx.session.walks.retain(|(of, _)| *of as i64 != id);
                Ok(Value::Empty)
            }
            _ => Err(Fault::usage("class donesearch class search_id")),
        },
        _ => Err(Fault::bad("option", &option, OPTIONS)),
    }
}

/// What of a record is a command's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Index,
    Name,
    Value,
    Element,
}

#[derive(Default)]
struct Flags {
    wanted: Option<Wanted>,
    all: bool,
}

/// `class match ?options? item operator class`, `class search ?options? class operator item`.
fn find(ctx: &mut Ctx<'_>, args: &[Value], matching: bool) -> Result<Value, Fault> {
    let (flags, [first, operator, last]) = flags(args)? else {
        return Err(Fault::usage(if matching {
            "class match ?options? item operator class"
        } else {
            "class search ?options? class operator item"
        }));
    };
    let (item, name) = if matching {
        (first, last)
    } else {
        (last, first)
    };
    let operator = operator_of(operator)?;
    let group = group(ctx, name)?;
    let item = item.bytes();
    ctx.spend(item.len() as u64 / 16)?;
    if matching && !flags.all {
        return Ok(match flags.wanted {
            None => Value::from(group.matches(&item, operator)),
            Some(wanted) => match group.matching(&item, operator) {
                Some(at) => wanted.of(&group, at),
                None => wanted.of_none(),
            },
        });
    }
    if !matching {
        ctx.spend(group.len() as u64)?;
    }
    let found = if matching {
        group.all_matching(&item, operator)
    } else {
        group.searching(operator, &item)
    };
    let wanted = match flags.wanted {
        None if flags.all => return Ok(Value::from(found.len())),
        None => return Ok(Value::from(!found.is_empty())),
        Some(wanted) => wanted,
    };
    if flags.all {
        let all: Vec<Value> = found.iter().map(|at| wanted.of(&group, *at)).collect();
        ctx.charge(all.iter().map(|value| value.len() + 48).sum())?;
        return Ok(Value::list_of(all));
    }
    Ok(match found.first() {
        Some(at) => wanted.of(&group, *at),
        None => wanted.of_none(),
    })
}

fn element(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (flags, [index, name]) = flags(args)? else {
        return Err(Fault::usage("class element ?options? index class"));
    };
    let group = group(ctx, name)?;
    let at = index.int()?;
    match usize::try_from(at) {
        Ok(at) if at < group.len() => Ok(flags.wanted.unwrap_or(Wanted::Element).of(&group, at)),
        _ => Ok(Value::Empty),
    }
}

fn listed(ctx: &mut Ctx<'_>, args: &[Value], option: &str, wanted: Wanted) -> Result<Value, Fault> {
    let (nocase, words) = match args {
        [flag, rest @ ..] if flag.is(b"-nocase") => (true, rest),
        _ => (false, args),
    };
    let ([name] | [name, _]) = words else {
        return Err(Fault::usage(&format!(
            "class {option} ?-nocase? class ?pattern?"
        )));
    };
    let group = group(ctx, name)?;
    ctx.spend(group.len() as u64)?;
    let pattern = words.get(1).map(Value::bytes);
    let fits = |at: &usize| match &pattern {
        Some(pattern) => glob(pattern, &group.records()[*at].name, nocase),
        None => true,
    };
    let all: Vec<Value> = (0..group.len())
        .filter(fits)
        .map(|at| wanted.of(&group, at))
        .collect();
    ctx.charge(all.len() * 64)?;
    Ok(Value::list_of(all))
}

/// The place of a walk's next record.
fn walk<'a>(ctx: &'a mut Ctx<'_>, id: &Value) -> Result<&'a mut usize, Fault> {
    let number = id.int().unwrap_or(-1);
    let mut walks = ctx.session.walks.iter_mut();
    match walks.find(|(of, _)| *of as i64 == number) {
        Some((_, at)) => Ok(at),
        None => Err(Fault::error(format!("no such search: \"{}\"", id.lossy()))),
    }
}

fn flags(args: &[Value]) -> Result<(Flags, &[Value]), Fault> {
    let mut flags = Flags::default();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        // Items may begin with a dash: only what is known, or stands before all other words, is a flag.
        let wanted = match &*word.bytes() {
            b"-index" => Wanted::Index,
            b"-name" => Wanted::Name,
            b"-value" => Wanted::Value,
            b"-element" => Wanted::Element,
            b"-all" => {
                flags.all = true;
                at += 1;
                continue;
            }
            b"--" => {
                at += 1;
                break;
            }
            _ => break,
        };
        flags.wanted = Some(wanted);
        at += 1;
    }
    Ok((flags, &args[at..]))
}

fn operator_of(word: &Value) -> Result<Operator, Fault> {
    match &*word.bytes() {
        b"equals" | b"eq" | b"==" => Ok(Operator::Equals),
        b"starts_with" => Ok(Operator::StartsWith),
        b"ends_with" => Ok(Operator::EndsWith),
        b"contains" => Ok(Operator::Contains),
        other => Err(Fault::bad(
            "operator",
            other,
            &["equals", "starts_with", "ends_with", "contains"],
        )),
    }
}

impl Wanted {
    fn of(self, group: &DataGroup, at: usize) -> Value {
        match self {
            Wanted::Index => Value::from(at),
            Wanted::Name => Value::new(&group.records()[at].name),
            Wanted::Value => value(group, at),
            Wanted::Element => Value::list_of(vec![
                Value::new(&group.records()[at].name),
                value(group, at),
            ]),
        }
    }

    fn of_none(self) -> Value {
        match self {
            Wanted::Index => Value::Int(-1),
            _ => Value::Empty,
        }
    }
}

fn value(group: &DataGroup, at: usize) -> Value {
    Value::new(&group.records()[at].value)
}

fn known(ctx: &Ctx<'_>, name: &Value) -> Option<Arc<DataGroup>> {
    let name = name.bytes();
    let group = ctx.host.data_group(&name);
    // A name with its partition, as BIG-IP has them, is its last part here.
    group.or_else(|| ctx.host.data_group(super::pool::without_partition(&name)?))
}

fn group(ctx: &Ctx<'_>, name: &Value) -> Result<Arc<DataGroup>, Fault> {
    known(ctx, name)
        .ok_or_else(|| Fault::error(format!("could not find class \"{}\"", name.lossy())))
}

fn matchclass(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    // `matchclass item operator class`, or the class first: then the operator is the record's.
    let operator = operator_of(&args[1])?;
    let found = match known(ctx, &args[2]) {
        Some(group) => group.matching(&args[0].bytes(), operator),
        None => {
            let group = group(ctx, &args[0]).or_else(|_| group(ctx, &args[2]))?;
            ctx.spend(group.len() as u64)?;
            group.searching(operator, &args[2].bytes()).first().copied()
        }
    };
    Ok(Value::from(found.map_or(0, |at| at + 1)))
}

fn findclass(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let group = group(ctx, &args[1])?;
    let Some(at) = group.find(&args[0].bytes()) else {
        return Ok(Value::Empty);
    };
    let record = &group.records()[at];
    if args.len() == 3 {
        return Ok(value(&group, at));
    }
    let mut whole = record.name.to_vec();
    if !record.value.is_empty() {
        whole.push(b' ');
        whole.extend_from_slice(&record.value);
    }
    Ok(Value::from(whole))
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use crate::data_group::Kind;

    fn world() -> World {
        let mut world = World::new();
        let paths = [("/a", "one"), ("/a/b", "two"), (".gif", ""), ("x y", "z")];
        world.data_group("paths", Kind::String, &paths);
        let nets = [
            ("10.0.0.0/8", "all"),
            ("10.1.0.0/16", "some"),
            ("192.0.2.1", "one"),
        ];
        world.data_group("nets", Kind::Address, &nets);
        world.data_group("ports", Kind::Integer, &[("80", "http"), ("443", "https")]);
        world
    }

    #[test]
    fn items_are_matched_against_records() {
        world().check(&[
            ("class match /a/b/c starts_with paths", "1"),
            ("class match /b starts_with paths", "0"),
            ("class match -value /a/b/c starts_with paths", "two"),
            ("class match -name /a/b/c starts_with paths", "/a/b"),
            ("class match -index /a/b/c starts_with paths", "1"),
            (
                "class match -element -- /a/b/c starts_with paths",
                "/a/b two",
            ),
            ("class match -all -name /a/b/c starts_with paths", "/a/b /a"),
            ("class match -value /b starts_with paths", ""),
            ("class match -index /b starts_with paths", "-1"),
            ("class match x.gif ends_with paths", "1"),
            ("class match -name 1/a2 contains paths", "/a"),
            ("class match /a equals paths", "1"),
            ("class match /A equals paths", "0"),
            ("class match 10.1.2.3 equals nets", "1"),
            ("class match -value 10.1.2.3 equals nets", "some"),
            ("class match -value 10.2.0.0/16 equals nets", "all"),
            ("class match 11.1.2.3 equals nets", "0"),
            ("class match -value 443 equals ports", "https"),
            ("class match /a equals /Common/paths", "1"),
        ]);
    }

    #[test]
    fn records_are_searched_for_items() {
        world().check(&[
            ("class search paths starts_with /", "1"),
            ("class search -all -name paths starts_with /a", "/a /a/b"),
            ("class search -value paths ends_with b", "two"),
            ("class search -name paths contains { }", "x y"),
            ("class search paths contains nothing", "0"),
            ("class lookup /a paths", "one"),
            ("class lookup /none paths", ""),
            ("class lookup 10.9.9.9 nets", "all"),
        ]);
    }

    #[test]
    fn groups_are_described_and_listed() {
        world().check(&[
            ("class exists paths", "1"),
            ("class exists none", "0"),
            ("class size paths", "4"),
            ("class type nets", "ip"),
            ("class type ports", "integer"),
            ("class names paths", "/a /a/b .gif {x y}"),
            ("class names -nocase paths /A*", "/a /a/b"),
            ("class get paths x*", "{{x y} z}"),
            ("class element 1 paths", "/a/b two"),
            ("class element -name 1 paths", "/a/b"),
            ("class element 9 paths", ""),
            ("class size none", "!could not find class \"none\""),
            (
                "class match a like paths",
                "!bad operator \"like\": must be equals, starts_with, ends_with, or contains",
            ),
        ]);
    }

    #[test]
    fn a_walk_meets_every_record_once() {
        let mut world = world();
        assert_eq!(world.text("class startsearch ports"), "1");
        world.check(&[
            ("class anymore ports 1", "1"),
            ("class nextelement ports 1", "80 http"),
            ("class nextelement -value ports 1", "https"),
            ("class anymore ports 1", "0"),
            ("class nextelement ports 1", ""),
            ("class donesearch ports 1", ""),
            ("class anymore ports 1", "!no such search: \"1\""),
        ]);
    }

    #[test]
    fn the_older_commands_find_the_same() {
        world().check(&[
            ("matchclass /a/b equals paths", "2"),
            ("matchclass /x equals paths", "0"),
            ("matchclass paths contains x", "4"),
            ("findclass /a paths", "/a one"),
            ("findclass /a paths { }", "one"),
            ("findclass /c paths", ""),
        ]);
    }
}
