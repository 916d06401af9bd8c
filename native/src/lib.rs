//! The kernel: Kafka batches and JSON, Avro and Protobuf values to Arrow buffers, safe on hostile bytes.
mod batches;
mod border;
mod json;
#[cfg_attr(not(target_os = "linux"), path = "memory_elsewhere.rs")]
mod memory;
mod produce;
mod written;

use pyo3::prelude::*;

/// Keeps at most so many bytes of freed blocks for the next slice.
#[pyfunction]
fn keep_bytes(py: Python<'_>, bytes_max: usize) {
    py.allow_threads(|| memory::keep(bytes_max));
}

/// Bytes of freed blocks kept now.
#[pyfunction]
fn kept_bytes() -> usize {
    memory::kept()
}

#[pymodule]
fn frazil_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<batches::Scanner>()?;
    m.add_class::<border::ArrowBatch>()?;
    m.add_class::<json::JsonPlan>()?;
    m.add_class::<written::WrittenPlan>()?;
    m.add_function(wrap_pyfunction!(written::find_heads, m)?)?;
    m.add_function(wrap_pyfunction!(produce::scan_produce, m)?)?;
    m.add_function(wrap_pyfunction!(keep_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(kept_bytes, m)?)?;
    Ok(())
}
