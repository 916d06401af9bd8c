//! `frazil_native.scan_produce`: the border to Python.
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::scan::{i32_at, i64_at, request, Request};

/// The burst that begins at byte `start` of `buffer[:end]`, at most `count_max` requests: (stop, version, acks, topic,
/// partition, correlation ids, batches joined, batch headers as tuples, size of the largest batch), or None.
#[pyfunction]
pub fn scan_produce<'py>(
    py: Python<'py>,
    buffer: &Bound<'py, PyAny>,
    start: usize,
    end: usize,
    count_max: usize,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let export = PyBuffer::<u8>::get(buffer)?;
    if !export.is_c_contiguous() || end > export.len_bytes() || start >= end {
        return Err(PyValueError::new_err("the burst lies outside its buffer"));
    }
    // SAFETY: `start < end <= len_bytes`, so the memory is there and not empty; the export keeps it in place; the lock is held
    // until the last read, and this thread reads only.
    let bytes = unsafe { std::slice::from_raw_parts(export.buf_ptr().cast::<u8>().cast_const(), end) };
    let mut found: Vec<Request<'_>> = Vec::new();
    let mut at = start;
    while found.len() < count_max {
        match request(bytes, at) {
            Some(next) if found.first().map_or(true, |first| first.common == next.common) => {
                at = next.stop;
                found.push(next);
            }
            _ => break,
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    answer(py, &found, at).map(Some)
}

fn answer<'py>(py: Python<'py>, found: &[Request<'_>], stop: usize) -> PyResult<Bound<'py, PyTuple>> {
    let common = found[0].common;
    let size = found.iter().map(|request| request.batch.len()).sum();
    let data = PyBytes::new_with(py, size, |out| {
        let mut at = 0;
        for request in found {
            out[at..at + request.batch.len()].copy_from_slice(request.batch);
            at += request.batch.len();
        }
        Ok(())
    })?;
    let mut headers = Vec::with_capacity(found.len());
    let (mut position, mut largest) = (0, 0);
    for request in found {
        headers.push(header(py, request.batch, position)?);
        position += request.batch.len();
        largest = largest.max(request.batch.len());
    }
    let correlations = PyList::new(py, found.iter().map(|request| request.correlation))?;
    (
        stop,
        common.version,
        common.acks,
        PyBytes::new(py, common.topic),
        common.partition,
        correlations,
        data,
        PyList::new(py, headers)?,
        largest,
    )
        .into_pyobject(py)
}

/// The fields of `frazil.records.Batch`, in its order.
fn header<'py>(py: Python<'py>, batch: &[u8], position: usize) -> PyResult<Bound<'py, PyTuple>> {
    (
        position,
        batch.len(),
        i64_at(batch, 0),
        i16::from_be_bytes([batch[21], batch[22]]),
        i32_at(batch, 23),
        i64_at(batch, 27),
        i64_at(batch, 35),
        i64_at(batch, 43),
        i16::from_be_bytes([batch[51], batch[52]]),
        i32_at(batch, 53),
        i32_at(batch, 57),
        i32_at(batch, 17) as u32,
    )
        .into_pyobject(py)
}
