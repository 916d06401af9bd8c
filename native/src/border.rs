//! Arrow data on its way to Python, by the Arrow C Data Interface: nothing is copied, no Arrow library is shared.
use arrow_array::{Array, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Columns of equal length; `pyarrow.record_batch` takes it.
#[pyclass(module = "frazil_native", frozen)]
pub struct ArrowBatch {
    columns: StructArray,
}

impl ArrowBatch {
    pub fn new(columns: StructArray) -> Self {
        Self { columns }
    }
}

#[pymethods]
impl ArrowBatch {
    /// The Arrow PyCapsule protocol.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema); // the protocol lets a producer keep its own types
        let schema = FFI_ArrowSchema::try_from(self.columns.data_type()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let array = FFI_ArrowArray::new(&self.columns.to_data());
        Ok((PyCapsule::new(py, schema, Some(c"arrow_schema".to_owned()))?, PyCapsule::new(py, array, Some(c"arrow_array".to_owned()))?))
    }

    fn __len__(&self) -> usize {
        self.columns.len()
    }
}
