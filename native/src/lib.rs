//! The kernel: Kafka batches and JSON values to Arrow buffers, safe on hostile bytes.
mod batches;
mod border;
mod json;
mod produce;

use pyo3::prelude::*;

/// Columns of one slice are tens of megabytes, freed and made again: the system's allocator gives such blocks back to the
/// kernel at once, and two thirds of the time of a scan would be page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
fn frazil_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<batches::Scanner>()?;
    m.add_class::<border::ArrowBatch>()?;
    m.add_class::<json::JsonPlan>()?;
    m.add_function(wrap_pyfunction!(produce::scan_produce, m)?)?;
    Ok(())
}
