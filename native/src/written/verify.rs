//! Whether a program fills every member of its columns exactly once, so that no column can come out longer than another.

use super::ops::{Message, Mode, Op, Place, Record, Scalar};
use crate::json::plan::{Member, Plan};

type Spares = [Member];

pub fn fits(op: &Op, plan: &Plan, spares: &Spares) -> bool {
    match (op, plan) {
        (Op::Twin | Op::Null, _) => true,
        (Op::Boolean, Plan::Boolean) => true,
        (Op::Integer(_), Plan::Int | Plan::Long | Plan::Float | Plan::Double | Plan::Decimal(..)) => true,
        (Op::Single | Op::Double, Plan::Float | Plan::Double) => true,
        (Op::Bytes, Plan::Binary) => true,
        (Op::Text | Op::Enum(_) | Op::ProtoEnum(_), Plan::Text) => true,
        (Op::Uuid, Plan::Uuid) => true,
        (Op::Date, Plan::Date) => true,
        (Op::Fixed(size), Plan::FixedBinary(width)) => size == width,
        (Op::Fixed(16), Plan::Uuid) | (Op::Fixed(_), Plan::Binary) => true,
        (Op::Micros { parts, times, .. }, Plan::Time | Plan::Timestamp(_)) => *parts > 0 && *times > 0,
        (Op::Decimal { .. }, Plan::Decimal(..)) => true,
        (Op::Array(item), Plan::List(member)) | (Op::Map(item), Plan::Map(member)) => fits(item, &member.plan, spares),
        (Op::Union(branches), _) => branches.iter().all(|branch| fits(branch, plan, spares)),
        (Op::Record(record), Plan::Struct(_, members)) => record_fits(record, members, spares),
        (Op::ProtoTime, Plan::Timestamp(true) | Plan::Long) => true,
        (Op::Wrapper(inner), _) => matches!(**inner, Op::Proto(_) | Op::Twin) && fits(inner, plan, spares),
        (Op::Message(message), Plan::Struct(_, members)) => message_fits(message, members, spares),
        (Op::Proto(scalar), _) => scalar_fits(*scalar, plan),
        _ => false,
    }
}

fn scalar_fits(scalar: Scalar, plan: &Plan) -> bool {
    match scalar {
        Scalar::Bool => matches!(plan, Plan::Boolean),
        Scalar::Float | Scalar::Double => matches!(plan, Plan::Float | Plan::Double),
        Scalar::Text => matches!(plan, Plan::Text),
        Scalar::Bytes => matches!(plan, Plan::Binary),
        Scalar::Uint64 | Scalar::Fixed64 => matches!(plan, Plan::Decimal(..)),
        _ => matches!(plan, Plan::Int | Plan::Long | Plan::Float | Plan::Double | Plan::Decimal(..)),
    }
}

fn record_fits(record: &Record, members: &[Member], spares: &Spares) -> bool {
    let placed = record.fields.iter().all(|(place, op)| match place {
        Place::Member(at) => members.get(*at).is_some_and(|member| fits(op, &member.plan, spares)),
        Place::Spare(at) => spares.get(*at).is_some_and(|member| fits(op, &member.plan, &[])),
        Place::Nowhere => matches!(op, Op::Null | Op::Twin | Op::OnlyBranch(_)),
    });
    placed && once(record.fields.iter().map(|(place, _)| *place), &record.absent, members.len())
}

fn message_fits(message: &Message, members: &[Member], spares: &Spares) -> bool {
    let placed = message.slots.iter().all(|slot| {
        let inside = |plan: &Plan, spares: &Spares| match (slot.mode, plan) {
            (Mode::One, _) => fits(&slot.op, plan, spares),
            (Mode::Many, Plan::List(member)) | (Mode::Pairs, Plan::Map(member)) => fits(&slot.op, &member.plan, spares),
            _ => matches!(slot.op, Op::Twin),
        };
        match slot.place {
            Place::Member(at) => members.get(at).is_some_and(|member| inside(&member.plan, spares)),
            Place::Spare(at) => spares.get(at).is_some_and(|member| inside(&member.plan, &[])),
            Place::Nowhere => true, // only the twin reads such a field
        }
    });
    placed && once(message.slots.iter().map(|slot| slot.place), &message.absent, members.len())
}

/// Each of `count` members has one place.
fn once(places: impl Iterator<Item = Place>, absent: &[usize], count: usize) -> bool {
    let mut filled = vec![false; count];
    let mut fill = |at: usize| at < count && !std::mem::replace(&mut filled[at], true);
    let all = places.into_iter().all(|place| !matches!(place, Place::Member(at) if !fill(at))) && absent.iter().all(|at| fill(*at));
    all && filled.iter().all(|one| *one)
}
