//! The kernel: Kafka batches and JSON values to Arrow buffers, safe on hostile bytes.
mod batches;
mod border;

use pyo3::prelude::*;

#[pymodule]
fn frazil_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<batches::Scanner>()?;
    m.add_class::<border::ArrowBatch>()?;
    Ok(())
}
