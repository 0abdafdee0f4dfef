//! Lists with items put in, replaced, or set.

use crate::command::Ctx;
use crate::commands::ensemble::{clamp, error_about, index};
use crate::fault::Fault;
use crate::value::Value;
use smallvec::SmallVec;

pub(super) fn linsert(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let items = args[0].list()?;
    // Here `end` is behind the last item.
    let at = clamp(index(&args[1], items.len() as i64)?, items.len());
    let new = &args[2..];
    splice(ctx, &items, at..at, new)
}

pub(super) fn lreplace(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let items = args[0].list()?;
    let len = items.len() as i64;
    let first = index(&args[1], len - 1)?.max(0);
    let last = index(&args[2], len - 1)?.min(len - 1);
    let text = args[1].bytes();
    if first >= len && len > 0 && !text.starts_with(b"e") {
        return Err(error_about("list doesn't contain element ", &text, ""));
    }
    let from = clamp(first, items.len());
    let to = clamp(last + 1, items.len()).max(from);
    splice(ctx, &items, from..to, &args[3..])
}

fn splice(
    ctx: &mut Ctx<'_>,
    items: &[Value],
    range: std::ops::Range<usize>,
    new: &[Value],
) -> Result<Value, Fault> {
    let len = items.len() - range.len() + new.len();
    ctx.charge(len * size_of::<Value>())?;
    let mut changed = Vec::with_capacity(len);
    changed.extend_from_slice(&items[..range.start]);
    changed.extend_from_slice(new);
    changed.extend_from_slice(&items[range.end..]);
    Ok(Value::list_of(changed))
}

pub(super) fn lset(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let [name, path @ .., new] = args else {
        return Err(Fault::usage("lset listVar index ?index...? value"));
    };
    let places = {
        let list = ctx.get(name)?;
        match path {
            [one] => match places(&list, path) {
                Ok(places) => places,
                // What is no index may be a list of them.
                Err(bad) => match one.list() {
                    Ok(several) if several.len() != 1 => places(&list, &several)?,
                    _ => return Err(bad),
                },
            },
            _ => places(&list, path)?,
        }
    };
    ctx.charge(new.weight())?;
    let changed = if places.is_empty() {
        new.clone()
    } else {
        // Taken out of the variable it has one holder and changes in place.
        let list = ctx.take(name);
        set_item(list, &places, new.clone())?
    };
    ctx.set(name, changed.clone())?;
    Ok(changed)
}

type Places = SmallVec<[usize; 4]>;

/// The places that indices name, one in the other.
fn places(list: &Value, path: &[Value]) -> Result<Places, Fault> {
    let mut places = Places::new();
    let mut inner = list.clone();
    for at in path {
        let next = {
            let items = inner.list()?;
            let at = index(at, items.len() as i64 - 1)?;
            let place = usize::try_from(at).ok().filter(|at| *at < items.len());
            let Some(place) = place else {
                return Err(Fault::error("list index out of range"));
            };
            places.push(place);
            items[place].clone()
        };
        inner = next;
    }
    Ok(places)
}

fn set_item(list: Value, places: &[usize], new: Value) -> Result<Value, Fault> {
    let mut around: SmallVec<[Vec<Value>; 2]> = SmallVec::new();
    let mut inner = list;
    for &place in places {
        let mut items = inner.into_items()?;
        inner = std::mem::take(&mut items[place]);
        around.push(items);
    }
    let mut changed = new;
    for (mut items, &place) in around.into_iter().rev().zip(places.iter().rev()) {
        items[place] = changed;
        changed = Value::list_of(items);
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    #[test]
    fn items_are_put_in_and_replaced() {
        check(&[
            ("linsert {a b} 1 x y", "a x y b"),
            ("linsert {a b} 0 x", "x a b"),
            ("linsert {a b} end x", "a b x"),
            ("linsert {a b} end-1 x", "a x b"),
            ("linsert {a b} 9 x", "a b x"),
            ("linsert {a b} -9 x", "x a b"),
            ("linsert {} 0 {}", "{}"),
            (
                "linsert {a} 0",
                "!wrong # args: should be \"linsert list index element ?element ...?\"",
            ),
            ("lreplace {a b c} 1 1 x y", "a x y c"),
            ("lreplace {a b c} 0 1", "c"),
            ("lreplace {a b c} end end x", "a b x"),
            ("lreplace {a b c} 2 1 x", "a b x c"),
            ("lreplace {a b c} -1 9", ""),
            ("lreplace {a b c} 3 3 x", "!list doesn't contain element 3"),
            ("lreplace {} 3 3 x", "x"),
        ]);
    }

    #[test]
    fn items_of_a_variable_are_set() {
        let mut bench = Bench::new();
        bench
            .ctx()
            .set(&Value::from("l"), Value::from("a {b c} d"))
            .unwrap();
        for (command, wanted) in [
            ("lset l 0 x", Ok("x {b c} d")),
            ("lset l 1 1 y", Ok("x {b y} d")),
            ("lset l {1 0} z", Ok("x {z y} d")),
            ("lset l end {q r}", Ok("x {z y} {q r}")),
            ("lset l 3 x", Err("list index out of range")),
            ("lset l -1 x", Err("list index out of range")),
            ("lset l 0 5 x", Err("list index out of range")),
            (
                "lset l y x",
                Err("bad index \"y\": must be integer or end?-integer?"),
            ),
            ("lset m 0 x", Err("can't read \"m\": no such variable")),
            (
                "lset l",
                Err("wrong # args: should be \"lset listVar index ?index...? value\""),
            ),
        ] {
            let given = bench.run(command);
            assert_eq!(
                given.as_deref().map_err(String::as_str),
                wanted,
                "{command}"
            );
        }
        assert_eq!(bench.var("l"), "x {z y} {q r}");
        assert_eq!(bench.run("lset l {} new").as_deref(), Ok("new"));
        assert_eq!(bench.run("lset l whole").as_deref(), Ok("whole"));
    }

    #[test]
    fn setting_an_item_leaves_another_holder_of_the_list_as_it_is() {
        let mut bench = Bench::new();
        let list = Value::from("a b c");
        list.list().unwrap();
        bench.ctx().set(&Value::from("l"), list.clone()).unwrap();
        bench.run("lset l 0 x").unwrap();
        let shared = bench.ctx().get(&Value::from("l")).unwrap();
        bench.run("lset l 1 y").unwrap();
        assert_eq!(shared.lossy(), "x b c");
        assert_eq!(list.lossy(), "a b c");
        assert_eq!(bench.var("l"), "x y c");
    }
}
