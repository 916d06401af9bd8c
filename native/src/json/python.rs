//! The border to Python: Arrow's C data interface in and out (capsules), the interpreter's lock released while records are read.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

use arrow_array::ffi::{from_ffi, FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::StructArray;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::names::Names;
use super::parse::Rules;
use super::plan::Plan;
use super::slice::{lay, Ends, Laid, Records};
use crate::border::ArrowBatch;

type NamesGiven = (Vec<(String, u32)>, HashMap<String, u32>);

/// A schema compiled for reading JSON into it. Immutable: any number of threads may use one.
#[pyclass(frozen, module = "frazil_native")]
pub struct JsonPlan {
    plan: Plan,
    fields: Fields,
}

#[pymethods]
impl JsonPlan {
    /// `schema`: anything with `__arrow_c_schema__`. `names`: (sources, folded) of each struct, the rows' first, outer before
    /// inner, in the order of fields. `reserved`: stems and lengths. ValueError for a schema without plan.
    #[new]
    fn new(schema: &Bound<'_, PyAny>, names: Vec<NamesGiven>, reserved: HashMap<String, usize>) -> PyResult<Self> {
        let fields = fields_of(schema)?;
        let mut reserved = Some(reserved);
        let mut names = names.into_iter().map(|(sources, folded)| Names {
            sources,
            folded,
            reserved: reserved.take().unwrap_or_default(),
        });
        let plan = Plan::of_fields(&fields, &mut names).map_err(PyValueError::new_err)?;
        Ok(JsonPlan { plan, fields })
    }

    /// `values`: anything with `__arrow_c_array__` of type binary or large_binary, below 2 GiB. `omit`: rows to leave out,
    /// ascending. Returns the good rows (with `__arrow_c_array__`) and the rows to look at again, ascending.
    #[pyo3(signature = (values, omit, *, depth_max, value_bytes_max, nulls_fit, watch, strict))]
    #[allow(clippy::too_many_arguments)]
    fn lay(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        omit: Vec<u32>,
        depth_max: u32,
        value_bytes_max: usize,
        nulls_fit: bool,
        watch: bool,
        strict: bool,
    ) -> PyResult<(ArrowBatch, Vec<u32>)> {
        let values = array_of(values)?;
        let rules = Rules { depth_max, value_bytes_max, nulls_fit, watch, strict };
        let to = DataType::Struct(self.fields.clone());
        // A panic is a fault of ours; the caller's exact road then answers for the whole slice.
        let found = py.allow_threads(|| catch_unwind(AssertUnwindSafe(|| self.lay_values(&values, &to, rules, &omit))));
        let laid = match found {
            Ok(laid) => laid?,
            Err(_) => Laid { rows: ArrayData::new_empty(&to), unsure: all_but(values.len(), &omit) },
        };
        Ok((ArrowBatch::new(StructArray::from(laid.rows)), laid.unsure))
    }
}

impl JsonPlan {
    fn lay_values(&self, values: &ArrayData, to: &DataType, rules: Rules, omit: &[u32]) -> PyResult<Laid> {
        if values.is_empty() {
            return Ok(Laid { rows: ArrayData::new_empty(to), unsure: Vec::new() });
        }
        let is_null = |row| values.is_null(row);
        let records = records_of(values)?.with(&is_null);
        Ok(lay(&self.plan, to, rules, &records, omit))
    }
}

/// The bytes of `values` and where each value ends; TypeError or ValueError for what is no column of bytes below 2 GiB.
pub fn records_of(values: &ArrayData) -> PyResult<Slices<'_>> {
    let (offset, length) = (values.offset(), values.len());
    let ends = match values.data_type() {
        DataType::Binary => Ends::Small(&values.buffers()[0].typed_data::<i32>()[offset..=offset + length]),
        DataType::LargeBinary => Ends::Large(&values.buffers()[0].typed_data::<i64>()[offset..=offset + length]),
        other => return Err(PyTypeError::new_err(format!("values are binary or large_binary, not {other}"))),
    };
    let data = values.buffers()[1].as_slice();
    let bytes = match &ends {
        Ends::Small(ends) => i64::from(ends[length]) - i64::from(ends[0]),
        Ends::Large(ends) => ends[length] - ends[0],
    };
    if bytes > i64::from(i32::MAX) || length > i32::MAX as usize {
        return Err(PyValueError::new_err("more than 2 GiB of values"));
    }
    Ok(Slices { data, ends })
}

/// The values of an array before it is known which are null.
pub struct Slices<'a> {
    pub data: &'a [u8],
    pub ends: Ends<'a>,
}

impl<'a> Slices<'a> {
    pub fn with(self, is_null: &'a dyn Fn(usize) -> bool) -> Records<'a> {
        Records { data: self.data, ends: self.ends, is_null }
    }
}

fn all_but(count: usize, omit: &[u32]) -> Vec<u32> {
    (0..count as u32).filter(|row| omit.binary_search(row).is_err()).collect()
}

/// The fields behind `__arrow_c_schema__`.
pub fn fields_of(schema: &Bound<'_, PyAny>) -> PyResult<Fields> {
    let capsule = schema.call_method0("__arrow_c_schema__")?.downcast_into::<PyCapsule>()?;
    // SAFETY: the capsule's name says that it holds an ArrowSchema, which the caller keeps alive.
    let schema = unsafe { &*pointer::<FFI_ArrowSchema>(&capsule, "arrow_schema")? };
    Ok(Schema::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string()))?.fields)
}

/// The array behind `__arrow_c_array__`, taken over.
pub fn array_of(values: &Bound<'_, PyAny>) -> PyResult<ArrayData> {
    let pair = values.call_method0("__arrow_c_array__")?.downcast_into::<PyTuple>()?;
    let (schema, array) = (pair.get_item(0)?.downcast_into::<PyCapsule>()?, pair.get_item(1)?.downcast_into::<PyCapsule>()?);
    let schema = pointer::<FFI_ArrowSchema>(&schema, "arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(&array, "arrow_array")?;
    // SAFETY: the names of the capsules say what they hold; `from_raw` leaves an empty, released array behind, so it is
    // dropped once, by us; `pair` keeps the schema alive until the end of this function.
    let found = unsafe { from_ffi(FFI_ArrowArray::from_raw(array), &*schema) };
    found.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &str) -> PyResult<*mut T> {
    let found = capsule.name()?.and_then(|found| found.to_str().ok());
    if found != Some(name) {
        return Err(PyTypeError::new_err(format!("a capsule of {name} was expected")));
    }
    Ok(capsule.pointer().cast::<T>())
}
