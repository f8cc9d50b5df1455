//! What changed between two versions of an object: one walk over both, side by side.
//!
//! Names are borrowed from the objects. Equal scalars are passed over without asking for their type, so that the cost of
//! an update is that of reading both objects once.

use std::borrow::Cow;

use serde_json::Value;

use super::error::TypeErrors;
use super::list_key::element_of;
use super::path::PathElement;
use super::set::FieldSet;
use super::types::{Atom, ListAtom, ListMerging, MapAtom, Shape, TypeRef};
use super::validation::scalar_error;
use super::value::{is_scalar, same};

/// The fields that differ between two objects; no field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison<'a> {
    pub removed: FieldSet<'a>,
    pub modified: FieldSet<'a>,
    pub added: FieldSet<'a>,
}

/// Compares an object with what it was before.
pub fn compare<'a>(types: TypeRef<'a>, old: &'a Value, new: &'a Value) -> Result<Comparison<'a>, TypeErrors> {
    let mut below = Comparison::default();
    node(types, Sides::Both(old, new), &mut below)?;
    Ok(below)
}

impl Comparison<'_> {
    /// Leaves out these fields and all below them.
    pub(super) fn exclude(&mut self, fields: &FieldSet<'_>) {
        self.removed.subtract_with_children(fields);
        self.modified.subtract_with_children(fields);
        self.added.subtract_with_children(fields);
    }
}

/// The values at one place; at least one of the objects has one there.
#[derive(Clone, Copy)]
enum Sides<'a> {
    Old(&'a Value),
    New(&'a Value),
    Both(&'a Value, &'a Value),
}

/// What happened to the field itself, as opposed to those below it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Removed,
    Modified,
    Added,
}

impl<'a> Sides<'a> {
    fn map(self, pick: impl Fn(&'a Value) -> Option<&'a Value>) -> Option<Self> {
        match self {
            Self::Old(old) => pick(old).map(Self::Old),
            Self::New(new) => pick(new).map(Self::New),
            Self::Both(old, new) => match (pick(old), pick(new)) {
                (Some(old), Some(new)) => Some(Self::Both(old, new)),
                (Some(old), None) => Some(Self::Old(old)),
                (None, Some(new)) => Some(Self::New(new)),
                (None, None) => None,
            },
        }
    }

    /// The change of a value that is one whole.
    fn leaf_change(self) -> Change {
        match self {
            Self::Old(_) => Change::Removed,
            Self::New(_) => Change::Added,
            Self::Both(old, new) if same(old, new) => Change::None,
            Self::Both(..) => Change::Modified,
        }
    }

    /// The change of a container whose content is looked at piece by piece.
    fn container_change(self) -> Change {
        match self {
            Self::Old(_) => Change::Removed,
            Self::New(_) => Change::Added,
            Self::Both(..) => Change::None,
        }
    }
}

impl<'a> Comparison<'a> {
    fn attach(&mut self, element: PathElement<'a>, change: Change, below: Comparison<'a>) {
        if change == Change::None && below.removed.is_empty() && below.modified.is_empty() && below.added.is_empty() {
            return;
        }
        self.removed.push(element.clone(), change == Change::Removed, below.removed);
        self.modified.push(element.clone(), change == Change::Modified, below.modified);
        self.added.push(element, change == Change::Added, below.added);
    }
}

fn node<'a>(types: TypeRef<'a>, sides: Sides<'a>, below: &mut Comparison<'a>) -> Result<Change, TypeErrors> {
    let atom = types.resolve();
    let (first, second) = match sides {
        Sides::Old(value) | Sides::New(value) => (atom.shape(value), None),
        Sides::Both(old, new) => {
            let (old, new) = (atom.shape(old), atom.shape(new));
            (old, (old != new).then_some(new))
        }
    };
    let change = shaped(&atom, first, sides, below)?;
    let Some(second) = second else { return Ok(change) };
    // The value became one of another kind: it is looked at as both.
    let mut more = Comparison::default();
    let also = shaped(&atom, second, sides, &mut more)?;
    below.removed.add(more.removed);
    below.modified.add(more.modified);
    below.added.add(more.added);
    Ok(if change == Change::None { also } else { change })
}

fn shaped<'a>(
    atom: &Atom<'a>,
    shape: Shape,
    sides: Sides<'a>,
    below: &mut Comparison<'a>,
) -> Result<Change, TypeErrors> {
    match (shape, &atom.map, atom.scalar, &atom.list) {
        (Shape::Map, Some(map), _, _) => self::map(map, sides, below),
        (Shape::List, _, _, Some(list)) => self::list(list, sides, below),
        (Shape::Scalar, _, Some(scalar), _) => {
            let errors = match sides {
                Sides::Old(value) | Sides::New(value) => scalar_error(scalar, value),
                Sides::Both(old, new) => scalar_error(scalar, old).and_then(|_| scalar_error(scalar, new)),
            };
            errors.map_or_else(|| Ok(sides.leaf_change()), |message| Err(TypeErrors::one(message)))
        }
        _ => Err(TypeErrors::one("schema error: invalid atom: inlined")),
    }
}

fn non_empty_map(value: &Value) -> Option<&Value> {
    value.as_object().filter(|fields| !fields.is_empty()).map(|_| value)
}

fn non_empty_list(value: &Value) -> Option<&Value> {
    value.as_array().filter(|items| !items.is_empty()).map(|_| value)
}

fn map<'a>(atom: &MapAtom<'a>, sides: Sides<'a>, below: &mut Comparison<'a>) -> Result<Change, TypeErrors> {
    let (false, Some(content)) = (atom.is_atomic, sides.map(non_empty_map)) else { return Ok(sides.leaf_change()) };
    let (old, new) = match content {
        Sides::Old(old) => (old.as_object(), None),
        Sides::New(new) => (None, new.as_object()),
        Sides::Both(old, new) => (old.as_object(), new.as_object()),
    };
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    loop {
        let (name, sides) = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(&(name, value)), None) => {
                old.next();
                (name, Sides::Old(value))
            }
            (None, Some(&(name, value))) => {
                new.next();
                (name, Sides::New(value))
            }
            (Some(&(old_name, old_value)), Some(&(new_name, new_value))) => match old_name.cmp(new_name) {
                std::cmp::Ordering::Less => {
                    old.next();
                    (old_name, Sides::Old(old_value))
                }
                std::cmp::Ordering::Greater => {
                    new.next();
                    (new_name, Sides::New(new_value))
                }
                std::cmp::Ordering::Equal => {
                    old.next();
                    new.next();
                    if is_scalar(old_value) && old_value == new_value {
                        continue;
                    }
                    (old_name, Sides::Both(old_value, new_value))
                }
            },
        };
        let types = atom.field_or_element(name).ok_or_else(|| undeclared(name))?;
        let mut child = Comparison::default();
        let element = PathElement::Field(Cow::Borrowed(name));
        let change = node(types, sides, &mut child).map_err(|errors| errors.below(&element))?;
        below.attach(element, change, child);
    }
    Ok(sides.container_change())
}

fn undeclared(name: &str) -> TypeErrors {
    TypeErrors::one("field not declared in schema").below(&PathElement::Field(name.into()))
}

fn list<'a>(atom: &ListAtom<'a>, sides: Sides<'a>, below: &mut Comparison<'a>) -> Result<Change, TypeErrors> {
    let (false, Some(content)) = (matches!(atom.merging, ListMerging::Atomic), sides.map(non_empty_list)) else {
        return Ok(sides.leaf_change());
    };
    if matches!(content, Sides::Both(old, new) if same(old, new)) {
        return Ok(Change::None);
    }
    let (old, new) = match content {
        Sides::Old(old) => (entries(atom, old)?, Vec::new()),
        Sides::New(new) => (Vec::new(), entries(atom, new)?),
        Sides::Both(old, new) => (entries(atom, old)?, entries(atom, new)?),
    };
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        // The entries of both lists with the smallest key that is left.
        let element = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some((key, _)), None) | (None, Some((key, _))) => key.clone(),
            (Some((old, _)), Some((new, _))) => old.min(new).clone(),
        };
        let of_key = |entries: &mut std::iter::Peekable<std::vec::IntoIter<(PathElement<'a>, &'a Value)>>| {
            let mut values = Vec::with_capacity(1);
            while let Some((_, value)) = entries.next_if(|(key, _)| *key == element) {
                values.push(value);
            }
            values
        };
        let (old, new) = (of_key(&mut old), of_key(&mut new));
        entry(atom, element, &old, &new, below)?;
    }
    Ok(sides.container_change())
}

/// The entries of a list in the order of their keys.
fn entries<'a>(atom: &ListAtom<'a>, list: &'a Value) -> Result<Vec<(PathElement<'a>, &'a Value)>, TypeErrors> {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    let mut entries = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let element = element_of(atom, item).map_err(|why| TypeErrors::one(format!("element {i}: {why}")))?;
        entries.push((element, item));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

/// Compares the entries with one key. More than one on a side are one whole, which nobody owns parts of.
fn entry<'a>(
    atom: &ListAtom<'a>,
    element: PathElement<'a>,
    old: &[&'a Value],
    new: &[&'a Value],
    below: &mut Comparison<'a>,
) -> Result<(), TypeErrors> {
    let sides = match (old, new) {
        ([], []) => return Ok(()),
        ([old], [new]) => Sides::Both(old, new),
        ([old], []) => Sides::Old(old),
        ([], [new]) => Sides::New(new),
        ([_, _, ..], [_, _, ..]) => {
            let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
            let change = if equal { Change::None } else { Change::Modified };
            below.attach(element, change, Comparison::default());
            return Ok(());
        }
        (many @ [_, _, ..], rest) | (rest, many) => {
            let (marker, single): (_, fn(&'a Value) -> Sides<'a>) =
                if std::ptr::eq(many, old) { (Change::Removed, Sides::New) } else { (Change::Added, Sides::Old) };
            let mut child = Comparison::default();
            let mut change = Change::None;
            if let Some(value) = rest.first() {
                change = node(atom.element, single(value), &mut child).map_err(|errors| errors.below(&element))?;
            }
            below.removed.push(element.clone(), [change, marker].contains(&Change::Removed), child.removed);
            below.modified.push(element.clone(), change == Change::Modified, child.modified);
            below.added.push(element, [change, marker].contains(&Change::Added), child.added);
            return Ok(());
        }
    };
    let mut child = Comparison::default();
    let change = node(atom.element, sides, &mut child).map_err(|errors| errors.below(&element))?;
    below.attach(element, change, child);
    Ok(())
}
