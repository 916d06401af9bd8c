//! The border to Python; as for JSON, the interpreter's lock is given up while records are read.

use std::collections::{HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};

use arrow_array::StructArray;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::heads::head_length;
use super::ops::{Build, Op};
use super::slice::{lay, Program, Rules};
use super::verify::fits;
use crate::border::ArrowBatch;
use crate::json::names::Names;
use crate::json::plan::Plan;
use crate::json::python::{array_of, fields_of, records_of};
use crate::json::slice::Laid;

/// The columns of a table with the programs that fill them. Immutable: any number of threads may use one.
#[pyclass(frozen, module = "frazil_native")]
pub struct WrittenPlan {
    plan: Plan,
    fields: Fields,
    programs: Vec<Program>,
    indexed: bool,
}

fn plan_of(fields: &Fields) -> PyResult<Plan> {
    Plan::of_fields(fields, &mut std::iter::repeat_with(Names::default)).map_err(PyValueError::new_err)
}

#[pymethods]
impl WrittenPlan {
    /// `schema`: anything with `__arrow_c_schema__`. `programs`: for each writer its program (nested tuples) and the schema of
    /// its spare columns. `indexed`: values have Protobuf's message indexes. ValueError for what has no plan.
    #[new]
    fn new(schema: &Bound<'_, PyAny>, programs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>, indexed: bool) -> PyResult<Self> {
        let fields = fields_of(schema)?;
        let plan = plan_of(&fields)?;
        let programs = programs.iter().map(|(op, spares)| program_of(op, spares, &plan)).collect::<PyResult<_>>()?;
        Ok(WrittenPlan { plan, fields, programs, indexed })
    }

    /// `values`: as for `JsonPlan.lay`. `heads`: the beginnings of values, to the programs that read what follows. Returns the
    /// good rows and the rows to look at again, ascending.
    #[pyo3(signature = (values, heads, *, depth_max, value_bytes_max, nulls_fit))]
    fn lay(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        heads: HashMap<Vec<u8>, usize>,
        depth_max: u32,
        value_bytes_max: usize,
        nulls_fit: bool,
    ) -> PyResult<(ArrowBatch, Vec<u32>)> {
        let values = array_of(values)?;
        let rules = Rules { depth_max: i64::from(depth_max), value_bytes_max, nulls_fit };
        let to = DataType::Struct(self.fields.clone());
        // A panic is a fault of ours; the caller's exact road then answers for the whole slice.
        let found = py.allow_threads(|| catch_unwind(AssertUnwindSafe(|| self.lay_values(&values, &to, rules, &heads))));
        let laid = match found {
            Ok(laid) => laid?,
            Err(_) => Laid { rows: ArrayData::new_empty(&to), unsure: (0..values.len() as u32).collect() },
        };
        Ok((ArrowBatch::new(StructArray::from(laid.rows)), laid.unsure))
    }
}

fn program_of(op: &Bound<'_, PyAny>, spares: &Bound<'_, PyAny>, plan: &Plan) -> PyResult<Program> {
    let mut build = Build::default();
    let op = build.op(op, 0)?;
    let Plan::Struct(_, spares) = plan_of(&fields_of(spares)?)? else { unreachable!("fields are a struct") };
    let rows = matches!(op, Op::Record(_) | Op::Message(_) | Op::Twin);
    if !rows || !fits(&op, plan, &spares) {
        return Err(PyValueError::new_err("a program that does not fit its columns"));
    }
    Ok(Program { op, spares, stamps: build.stamps })
}

impl WrittenPlan {
    fn lay_values(&self, values: &ArrayData, to: &DataType, rules: Rules, heads: &HashMap<Vec<u8>, usize>) -> PyResult<Laid> {
        if values.is_empty() {
            return Ok(Laid { rows: ArrayData::new_empty(to), unsure: Vec::new() });
        }
        let records = records_of(values)?;
        let is_null = |row| values.is_null(row);
        Ok(lay(&self.plan, to, &self.programs, heads, self.indexed, rules, &records.with(&is_null)))
    }
}

/// The different heads of `values`, each with the row that has it first, in that order; at most `most` and one.
#[pyfunction]
pub fn find_heads<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    indexed: bool,
    most: usize,
) -> PyResult<Vec<(Bound<'py, PyBytes>, usize)>> {
    let values = array_of(values)?;
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let records = records_of(&values)?;
    let mut found: Vec<(&[u8], usize)> = Vec::new();
    let mut known: HashSet<&[u8]> = HashSet::new();
    let mut last: &[u8] = &[];
    for row in (0..values.len()).filter(|row| !values.is_null(*row)) {
        let value = records.data.get(records.ends.at(row)..records.ends.at(row + 1)).unwrap_or_default();
        let Ok(length) = head_length(value, indexed) else { continue };
        let head = &value[..length];
        if head == last {
            continue;
        }
        last = head;
        if known.insert(head) {
            found.push((head, row));
            if found.len() > most {
                break;
            }
        }
    }
    Ok(found.into_iter().map(|(head, row)| (PyBytes::new(py, head), row)).collect())
}
