//! All records of a slice, each by the program of its head.

use std::collections::HashMap;

use arrow_schema::DataType;

use super::cursor::Cursor;
use super::heads::head_length;
use super::ops::Op;
use crate::json::columns::{Column, Scale, Struct};
use crate::json::cursor::{Sure, Unsure};
use crate::json::plan::{Member, Plan};
use crate::json::slice::{Laid, Records, GUESS_AFTER};

/// A writer's type compiled for the columns of a table.
pub struct Program {
    pub op: Op,
    /// Columns for what has none.
    pub spares: Vec<Member>,
    pub stamps: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub depth_max: i64,
    pub value_bytes_max: usize,
    /// A record without value is a row of nulls.
    pub nulls_fit: bool,
}

/// What the records of one program share.
pub struct Reader<'p> {
    spares: Vec<Column<'p>>,
    /// The message that had a field last, by the field's place in the program.
    pub stamps: Vec<u64>,
    /// Messages read so far, which numbers them from 1.
    pub messages: u64,
}

impl<'p> Reader<'p> {
    fn new(program: &'p Program) -> Self {
        let spares = program.spares.iter().map(|member| Column::new(&member.plan, 0)).collect();
        Reader { spares, stamps: vec![0; program.stamps], messages: 0 }
    }

    fn read(&mut self, program: &Program, rows: &mut Struct<'p>, body: &[u8], depth_max: i64) -> Sure<()> {
        match &program.op {
            Op::Record(record) => {
                let mut at = Cursor::new(body);
                self.record(record, rows, &mut at)?;
                if at.left() > 0 {
                    return Err(Unsure);
                }
                Ok(())
            }
            Op::Message(message) => self.message(message, rows, body, depth_max),
            _ => Err(Unsure),
        }
    }
}

/// Reads into a spare column, which is out of its place meanwhile.
#[inline(always)]
pub fn spare<'p>(reader: &mut Reader<'p>, number: usize, read: impl FnOnce(&mut Reader<'p>, &mut Column<'p>) -> Sure<()>) -> Sure<()> {
    let mut column = std::mem::replace(&mut reader.spares[number], Column::new(&Plan::Boolean, 0));
    let found = read(reader, &mut column);
    reader.spares[number] = column;
    found
}

/// Reads all records; those without program go to the twin.
pub fn lay(
    plan: &Plan,
    to: &DataType,
    programs: &[Program],
    heads: &HashMap<Vec<u8>, usize>,
    indexed: bool,
    rules: Rules,
    records: &Records,
) -> Laid {
    let Plan::Struct(names, members) = plan else { unreachable!("a plan of rows is one of a struct") };
    let count = records.ends.count();
    let mut rows = Struct::new(names, members, count);
    let mut readers: Vec<Option<Reader>> = programs.iter().map(|_| None).collect();
    let mut unsure = Vec::new();
    let mut last: (&[u8], usize) = (&[], usize::MAX);
    for row in 0..count {
        let read = if (records.is_null)(row) {
            no_record(&mut rows, rules)
        } else {
            let value = records.data.get(records.ends.at(row)..records.ends.at(row + 1)).unwrap_or_default();
            choose(value, heads, indexed, &mut last, rules).and_then(|(number, body)| {
                let program = programs.get(number).ok_or(Unsure)?;
                let reader = readers[number].get_or_insert_with(|| Reader::new(program));
                let before = rows.length;
                let read = reader.read(program, &mut rows, body, rules.depth_max);
                if read.is_err() {
                    rows.truncate(before);
                }
                for column in &mut reader.spares {
                    column.truncate(0);
                }
                read
            })
        };
        if read.is_err() {
            unsure.push(row as u32);
        }
        if GUESS_AFTER.contains(&row) {
            rows.reserve(Scale { rows: row, of: count, most: records.ends.at(count) - records.ends.at(0) });
        }
    }
    Laid { rows: rows.finish(to), unsure }
}

fn no_record(rows: &mut Struct, rules: Rules) -> Sure<()> {
    if !rules.nulls_fit {
        return Err(Unsure);
    }
    rows.push_null_members();
    rows.close();
    Ok(())
}

/// The program of a value and its body. `last`: the head before this one and its program.
#[inline(always)]
fn choose<'a>(
    value: &'a [u8],
    heads: &HashMap<Vec<u8>, usize>,
    indexed: bool,
    last: &mut (&'a [u8], usize),
    rules: Rules,
) -> Sure<(usize, &'a [u8])> {
    if value.len() > rules.value_bytes_max {
        return Err(Unsure);
    }
    let (head, body) = value.split_at(head_length(value, indexed)?);
    if last.0 != head {
        *last = (head, *heads.get(head).ok_or(Unsure)?);
    }
    Ok((last.1, body))
}
