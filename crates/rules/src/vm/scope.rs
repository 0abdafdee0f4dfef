//! Where variables are: in slots that the compiler has numbered, and beside them those whose names turn up only at run time.
//!
//! A connection's variables are one scope, a procedure's call is another; `static::` and `::` variables belong to the worker.

use crate::fault::{Error, Fault, Message};
use crate::value::Value;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The variables of running code: the connection's and those of each call, innermost last.
#[derive(Default)]
pub struct Scopes {
    pub(crate) list: Vec<Scope>,
    /// The one in which code runs.
    pub(crate) current: usize,
    /// Memory of scopes that have ended.
    spare: Vec<Scope>,
}

/// How many names beyond the layout are looked through one by one.
const FEW: usize = 8;

/// How many scopes' memory is kept.
const SPARE: usize = 8;

/// The variables of a connection, or of one call of a procedure.
pub(crate) struct Scope {
    layout: Rc<Layout>,
    slots: Vec<Slot>,
    /// Names beyond the layout: their slots follow its own.
    extra: Vec<Rc<[u8]>>,
    /// Their slots, once they are many. Ordered, as strangers may choose the names.
    sorted: BTreeMap<Rc<[u8]>, u32>,
    /// The scope that called.
    pub(crate) parent: usize,
    /// How many calls are around it.
    pub(crate) level: u32,
}

/// Which slots a compiler has given to which names.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    names: Vec<Rc<[u8]>>,
    index: HashMap<Rc<[u8]>, u32, FixedState>,
}

/// A worker's variables, which outlive connections: `static::name` and `::name`.
pub struct Statics {
    layout: Layout,
    slots: Vec<Slot>,
    seed: u64,
    /// The error that was caught last: what `errorInfo` and `errorCode` say, unless they are set.
    error: Option<Error>,
}

/// The slots of `::errorInfo` and `::errorCode`.
const ERROR_INFO: u32 = 0;
const ERROR_CODE: u32 = 1;

/// A variable.
#[derive(Default)]
pub(crate) enum Slot {
    /// Not there.
    #[default]
    Unset,
    Scalar(Value),
    Array(Box<Array>),
    /// Another variable by this name: `upvar`, `global`.
    Link(Box<(Place, Option<Value>)>),
}

/// An array's elements.
pub(crate) type Array = HashMap<Box<[u8]>, Value, FixedState>;

/// Which variable is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Local { scope: u32, slot: u32 },
    Static(u32),
}

impl Layout {
    /// The slot of a name, if it has one.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.get(name).copied()
    }

    /// The slot of a name, which gets one if it has none.
    pub(crate) fn slot(&mut self, name: &[u8]) -> u32 {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        let name: Rc<[u8]> = name.into();
        let slot = self.names.len() as u32;
        self.names.push(Rc::clone(&name));
        self.index.insert(name, slot);
        slot
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Statics {
    /// None yet. `seed` keeps strangers from choosing keys that collide.
    pub fn new(seed: u64) -> Self {
        let mut statics = Statics {
            layout: Layout::default(),
            slots: Vec::new(),
            seed,
            error: None,
        };
        statics.slot(b"::errorInfo");
        statics.slot(b"::errorCode");
        statics
    }

    /// Keeps the error that was caught last.
    pub(crate) fn note_error(&mut self, error: Error) {
        self.error = Some(error);
        self.slots[ERROR_INFO as usize] = Slot::Unset;
        self.slots[ERROR_CODE as usize] = Slot::Unset;
    }

    /// What is read where nothing was set.
    fn unset(&self, place: Place) -> Option<Value> {
        match (place, &self.error) {
            (Place::Static(ERROR_INFO), Some(error)) => Some(error.stack()),
            (Place::Static(ERROR_CODE), Some(error)) => Some(error.error_code()),
            _ => None,
        }
    }

    /// The slot of a name, by what follows `static::`, or with its leading `::`.
    pub(crate) fn slot(&mut self, name: &[u8]) -> u32 {
        let slot = self.layout.slot(name);
        if self.slots.len() <= slot as usize {
            self.slots.push(Slot::Unset);
        }
        slot
    }

    fn array(&self) -> Slot {
        Slot::Array(Box::new(Array::with_hasher(FixedState::with_seed(
            self.seed,
        ))))
    }

    /// The value of a scalar, for tests and status: by its name as rules write it.
    pub fn peek(&self, name: &str) -> Option<Value> {
        match &self.slots[self.layout.find(name.as_bytes())? as usize] {
            Slot::Scalar(value) => Some(value.clone()),
            _ => None,
        }
    }
}

/// Whether the name is that of a worker's variable, and what it is called among them.
pub(crate) fn static_name(name: &[u8]) -> Option<&[u8]> {
    if name.starts_with(b"static::") {
        return Some(name);
    }
    let rest = name.strip_prefix(b"::")?;
    Some(if rest.starts_with(b"static::") {
        rest
    } else {
        name
    })
}

/// A name taken apart: `a(b)` into `a` and `b`.
pub(crate) fn split_name(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    if name.last() == Some(&b')')
        && let Some(open) = memchr::memchr(b'(', name)
    {
        return (&name[..open], Some(&name[open + 1..name.len() - 1]));
    }
    (name, None)
}

impl Scope {
    /// Without a variable set.
    pub(crate) fn new(layout: Rc<Layout>) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(layout.len(), Slot::default);
        Scope {
            layout,
            slots,
            extra: Vec::new(),
            sorted: BTreeMap::new(),
            parent: 0,
            level: 0,
        }
    }

    /// Sets a slot that nothing was in.
    pub(crate) fn fill(&mut self, slot: usize, value: Value) {
        self.slots[slot] = Slot::Scalar(value);
    }

    pub(crate) fn layout(&self) -> &Rc<Layout> {
        &self.layout
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.layout.find(name).or_else(|| {
            if self.extra.len() > FEW {
                return self.sorted.get(name).copied();
            }
            let at = self.extra.iter().position(|extra| **extra == *name)?;
            Some((self.layout.len() + at) as u32)
        })
    }

    fn find_or_add(&mut self, name: &[u8]) -> u32 {
        self.find(name).unwrap_or_else(|| {
            self.extra.push(name.into());
            self.slots.push(Slot::Unset);
            let first = self.layout.len();
            if self.extra.len() > FEW {
                // All of them when it becomes many, then one after the other.
                for at in self.sorted.len()..self.extra.len() {
                    let slot = (first + at) as u32;
                    self.sorted.insert(Rc::clone(&self.extra[at]), slot);
                }
            }
            (self.slots.len() - 1) as u32
        })
    }

    fn name(&self, slot: u32) -> Rc<[u8]> {
        let own = self.layout.names.get(slot as usize);
        let extra = || &self.extra[slot as usize - self.layout.len()];
        Rc::clone(own.unwrap_or_else(extra))
    }

    /// Names of the variables that are there.
    pub(super) fn names(&self) -> impl Iterator<Item = Rc<[u8]>> + '_ {
        let set = |slot: &usize| !matches!(self.slots[*slot], Slot::Unset);
        (0..self.slots.len())
            .filter(set)
            .map(|slot| self.name(slot as u32))
    }
}

impl Scopes {
    /// A connection's variables.
    pub(crate) fn of(scope: Scope) -> Self {
        Scopes {
            list: vec![scope],
            current: 0,
            spare: Vec::new(),
        }
    }

    /// Begins the scope of a call out of the current one.
    pub(crate) fn begin(&mut self, layout: &Rc<Layout>) -> usize {
        let mut scope = match self.spare.pop() {
            Some(mut spare) => {
                spare.layout = Rc::clone(layout);
                spare.slots.resize_with(layout.len(), Slot::default);
                spare
            }
            None => Scope::new(Rc::clone(layout)),
        };
        scope.parent = self.current;
        scope.level = self.list[self.current].level + 1;
        self.list.push(scope);
        self.list.len() - 1
    }

    /// Ends the scope of a call, and those of calls within it.
    pub(crate) fn end(&mut self, scope: usize) {
        while self.list.len() > scope {
            let Some(mut ended) = self.list.pop() else {
                return;
            };
            ended.slots.clear();
            ended.extra.clear();
            ended.sorted.clear();
            if self.spare.len() < SPARE {
                self.spare.push(ended);
            }
        }
    }

    /// Takes over the variable of that name from another connection, as it is there; what isn't there is left as it is.
    pub(crate) fn adopt(&mut self, other: &Scopes, name: &[u8]) {
        let Some(from) = other.list[0].find(name) else {
            return;
        };
        let copy = match &other.list[0].slots[from as usize] {
            Slot::Scalar(value) => Slot::Scalar(value.clone()),
            Slot::Array(array) => Slot::Array(array.clone()),
            Slot::Unset | Slot::Link(_) => return,
        };
        let to = self.list[0].find_or_add(name);
        self.list[0].slots[to as usize] = copy;
    }

    /// The slot at a place itself, whatever it is.
    #[inline]
    pub(crate) fn slot<'a>(&'a self, statics: &'a Statics, place: Place) -> &'a Slot {
        match place {
            Place::Local { scope, slot } => &self.list[scope as usize].slots[slot as usize],
            Place::Static(slot) => &statics.slots[slot as usize],
        }
    }

    #[inline]
    pub(crate) fn slot_mut<'a>(
        &'a mut self,
        statics: &'a mut Statics,
        place: Place,
    ) -> &'a mut Slot {
        match place {
            Place::Local { scope, slot } => &mut self.list[scope as usize].slots[slot as usize],
            Place::Static(slot) => &mut statics.slots[slot as usize],
        }
    }

    pub(crate) fn name_of(&self, statics: &Statics, place: Place) -> Rc<[u8]> {
        match place {
            Place::Local { scope, slot } => self.list[scope as usize].name(slot),
            Place::Static(slot) => Rc::clone(&statics.layout.names[slot as usize]),
        }
    }

    /// The place of a name in a scope, made if there is none.
    pub(crate) fn place(&mut self, statics: &mut Statics, scope: usize, name: &[u8]) -> Place {
        match static_name(name) {
            Some(name) => Place::Static(statics.slot(name)),
            None => Place::Local {
                scope: scope as u32,
                slot: self.list[scope].find_or_add(name),
            },
        }
    }

    pub(super) fn existing_place(&self, statics: &Statics, name: &[u8]) -> Option<Place> {
        match static_name(name) {
            Some(name) => statics.layout.find(name).map(Place::Static),
            None => Some(Place::Local {
                scope: self.current as u32,
                slot: self.list[self.current].find(name)?,
            }),
        }
    }

    /// Where a place's links lead to.
    fn follow(&self, statics: &Statics, mut place: Place) -> (Place, Option<Value>) {
        // Links are made to what other links lead to, so that this is done once.
        while let Slot::Link(link) = self.slot(statics, place) {
            place = link.0;
            if link.1.is_some() {
                return (place, link.1.clone());
            }
        }
        (place, None)
    }

    /// The value of a scalar.
    #[inline]
    pub(crate) fn load(&self, statics: &Statics, place: Place) -> Result<Value, Fault> {
        match self.slot(statics, place) {
            Slot::Scalar(value) => Ok(value.clone()),
            _ => self.load_slowly(statics, place),
        }
    }

    #[cold]
    fn load_slowly(&self, statics: &Statics, place: Place) -> Result<Value, Fault> {
        let name = self.name_of(statics, place);
        let (target, element) = self.follow(statics, place);
        if let Some(element) = element {
            return self.load_element(statics, target, &element.bytes());
        }
        match self.slot(statics, target) {
            Slot::Scalar(value) => Ok(value.clone()),
            Slot::Array(_) => Err(cant("read", &name, None, "variable is array")),
            _ => match statics.unset(target) {
                Some(value) => Ok(value),
                None => Err(Fault::raise(Message::NoVariable(name))),
            },
        }
    }

    /// The value of an array's element.
    #[inline]
    pub(crate) fn load_element(
        &self,
        statics: &Statics,
        place: Place,
        index: &[u8],
    ) -> Result<Value, Fault> {
        match self.slot(statics, place) {
            Slot::Array(array) => match array.get(index) {
                Some(value) => Ok(value.clone()),
                None => Err(Fault::raise(Message::NoElement(
                    self.name_of(statics, place),
                    Value::new(index),
                ))),
            },
            _ => self.load_element_slowly(statics, place, index),
        }
    }

    #[cold]
    fn load_element_slowly(
        &self,
        statics: &Statics,
        place: Place,
        index: &[u8],
    ) -> Result<Value, Fault> {
        let name = self.name_of(statics, place);
        let (target, element) = self.follow(statics, place);
        match (self.slot(statics, target), element) {
            (Slot::Array(array), None) => array
                .get(index)
                .cloned()
                .ok_or_else(|| Fault::raise(Message::NoElement(name, Value::new(index)))),
            (Slot::Unset | Slot::Link(_), None) => {
                Err(cant("read", &name, Some(index), "no such variable"))
            }
            _ => Err(cant("read", &name, Some(index), "variable isn't array")),
        }
    }

    /// Sets a scalar.
    #[inline]
    pub(crate) fn store(
        &mut self,
        statics: &mut Statics,
        place: Place,
        value: Value,
    ) -> Result<(), Fault> {
        match self.slot_mut(statics, place) {
            Slot::Scalar(old) => {
                *old = value;
                Ok(())
            }
            slot @ Slot::Unset => {
                *slot = Slot::Scalar(value);
                Ok(())
            }
            _ => self.store_slowly(statics, place, value),
        }
    }

    #[cold]
    fn store_slowly(
        &mut self,
        statics: &mut Statics,
        place: Place,
        value: Value,
    ) -> Result<(), Fault> {
        let (target, element) = self.follow(statics, place);
        if let Some(element) = element {
            return self.store_element(statics, target, &element.bytes(), value);
        }
        match self.slot_mut(statics, target) {
            Slot::Array(_) => {
                let name = self.name_of(statics, place);
                Err(cant("set", &name, None, "variable is array"))
            }
            slot => {
                *slot = Slot::Scalar(value);
                Ok(())
            }
        }
    }

    /// Sets an array's element; an array that is not there comes to be.
    pub(crate) fn store_element(
        &mut self,
        statics: &mut Statics,
        place: Place,
        index: &[u8],
        value: Value,
    ) -> Result<(), Fault> {
        let array = self.array_mut(statics, place, "set", index)?;
        match array.get_mut(index) {
            Some(old) => *old = value,
            None => {
                array.insert(index.into(), value);
            }
        }
        Ok(())
    }

    /// The array at a place, which comes to be if there is nothing.
    pub(super) fn array_mut<'a>(
        &'a mut self,
        statics: &'a mut Statics,
        place: Place,
        doing: &str,
        index: &[u8],
    ) -> Result<&'a mut Array, Fault> {
        let (target, element) = match self.slot(statics, place) {
            Slot::Array(_) | Slot::Unset => (place, None),
            _ => self.follow(statics, place),
        };
        let fits = matches!(self.slot(statics, target), Slot::Array(_) | Slot::Unset);
        if element.is_some() || !fits {
            let name = self.name_of(statics, place);
            return Err(cant(doing, &name, Some(index), "variable isn't array"));
        }
        if matches!(self.slot(statics, target), Slot::Unset) {
            let fresh = statics.array();
            *self.slot_mut(statics, target) = fresh;
        }
        match self.slot_mut(statics, target) {
            Slot::Array(array) => Ok(array),
            _ => Err(Fault::error("variable isn't array")),
        }
    }

    /// The value of a variable, or of an array's element, to be changed where it is; `None` where there
    /// is none yet, in which case it is to be stored.
    pub(crate) fn value_mut<'a>(
        &'a mut self,
        statics: &'a mut Statics,
        place: Place,
        index: Option<&[u8]>,
    ) -> Option<&'a mut Value> {
        if !matches!(self.slot(statics, place), Slot::Link(_)) {
            return match (self.slot_mut(statics, place), index) {
                (Slot::Scalar(value), None) => Some(value),
                (Slot::Array(array), Some(index)) => array.get_mut(index),
                _ => None,
            };
        }
        let (target, element) = self.follow(statics, place);
        match (self.slot_mut(statics, target), index, element) {
            (Slot::Scalar(value), None, None) => Some(value),
            (Slot::Array(array), Some(index), None) => array.get_mut(index),
            (Slot::Array(array), None, Some(element)) => array.get_mut(&*element.bytes()),
            _ => None,
        }
    }

    /// Whether there is such a variable or element.
    pub(crate) fn exists(&self, statics: &Statics, place: Place, index: Option<&[u8]>) -> bool {
        let (target, element) = self.follow(statics, place);
        match (self.slot(statics, target), index, element) {
            (Slot::Scalar(_) | Slot::Array(_), None, None) => true,
            (Slot::Array(array), Some(index), None) => array.contains_key(index),
            (Slot::Array(array), None, Some(element)) => array.contains_key(&*element.bytes()),
            _ => false,
        }
    }

    /// Takes a variable or element away: whether there was one.
    pub(crate) fn unset(
        &mut self,
        statics: &mut Statics,
        place: Place,
        index: Option<&[u8]>,
    ) -> bool {
        let (target, element) = self.follow(statics, place);
        let slot = self.slot_mut(statics, target);
        match (&mut *slot, index, element) {
            (Slot::Array(array), Some(index), None) => array.remove(index).is_some(),
            (Slot::Array(array), None, Some(element)) => array.remove(&*element.bytes()).is_some(),
            (Slot::Scalar(_) | Slot::Array(_), None, None) => {
                *slot = Slot::Unset;
                true
            }
            _ => false,
        }
    }

    /// The array at a place, if there is one.
    pub(crate) fn array<'a>(&'a self, statics: &'a Statics, place: Place) -> Option<&'a Array> {
        let (target, element) = self.follow(statics, place);
        match (self.slot(statics, target), element) {
            (Slot::Array(array), None) => Some(array),
            _ => None,
        }
    }

    /// Has a name stand for another variable.
    pub(crate) fn link(
        &mut self,
        statics: &mut Statics,
        here: Place,
        to: Place,
        element: Option<Value>,
    ) -> Result<(), Fault> {
        let (to, through) = self.follow(statics, to);
        if to == here {
            return Err(Fault::error("can't upvar from variable to itself"));
        }
        let element = through.or(element);
        let name = self.name_of(statics, here);
        if let (Place::Static(_), Place::Local { .. }) = (here, to) {
            // It would outlive what it stands for.
            return Err(Fault::error(format!(
                "bad variable name \"{}\": upvar won't create namespace variable that refers to procedure variable",
                String::from_utf8_lossy(&name)
            )));
        }
        match self.slot_mut(statics, here) {
            slot @ (Slot::Unset | Slot::Link(_)) => {
                *slot = Slot::Link(Box::new((to, element)));
                Ok(())
            }
            _ => Err(Fault::error(format!(
                "variable \"{}\" already exists",
                String::from_utf8_lossy(&name)
            ))),
        }
    }
}

/// Tcl's `can't read "a(b)": why`.
pub(crate) fn cant(doing: &str, name: &[u8], index: Option<&[u8]>, why: &str) -> Fault {
    let mut text = format!("can't {doing} \"{}", String::from_utf8_lossy(name));
    if let Some(index) = index {
        text.push('(');
        text.push_str(&String::from_utf8_lossy(index));
        text.push(')');
    }
    Fault::error(format!("{text}\": {why}"))
}
