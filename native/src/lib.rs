//! The kernel: Kafka batches and JSON values to Arrow buffers, safe on hostile bytes.
use pyo3::prelude::*;

#[pymodule]
fn frazil_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
