//! `frazil_native.Scanner`: the border to Python.
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::codecs::Codecs;
use super::columns::Columns;
use super::scan::{scan, Limits, Walked};
use crate::border::ArrowBatch;

/// Bytes of one table and of one batch: both together stay below what 32-bit offsets of Arrow reach.
const BYTES_MAX: usize = 1 << 30;

/// First offset, last offset, code, why, position, length.
type FaultTuple = (i64, i64, &'static str, String, usize, usize);
/// Bytes used, the offset after them, faults, why it stopped.
type Added = (usize, Option<u64>, Vec<FaultTuple>, Option<String>);

/// Collects the records of runs; `frazil.records.tables` documents the contract.
#[pyclass(module = "frazil_native")]
pub struct Scanner {
    columns: Columns,
    codecs: Codecs,
    limits: Limits,
}

#[pymethods]
impl Scanner {
    #[new]
    #[pyo3(signature = (*, uncompressed_bytes_max, rows_max, bytes_max))]
    fn new(uncompressed_bytes_max: usize, rows_max: usize, bytes_max: usize) -> PyResult<Self> {
        if uncompressed_bytes_max > BYTES_MAX || bytes_max > BYTES_MAX || rows_max > BYTES_MAX {
            return Err(PyValueError::new_err(format!("limits go up to {BYTES_MAX}")));
        }
        let limits = Limits { uncompressed_bytes_max, rows_max, bytes_max, stop_at_damage: false };
        Ok(Self { columns: Columns::new(), codecs: Codecs::default(), limits })
    }

    /// Adds a run, without the interpreter's lock.
    #[pyo3(signature = (run, *, first_offset, stop_at_damage))]
    fn add(&mut self, py: Python<'_>, run: &Bound<'_, PyAny>, first_offset: i64, stop_at_damage: bool) -> PyResult<Added> {
        self.limits.stop_at_damage = stop_at_damage;
        let walked = if let Ok(bytes) = run.downcast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            py.allow_threads(|| self.walk(bytes, first_offset))
        } else {
            let buffer = PyBuffer::<u8>::get(run)?;
            if buffer.readonly() && buffer.is_c_contiguous() {
                let length = buffer.len_bytes();
                // SAFETY: the export keeps the memory in place until `buffer` is dropped, below; whoever hands over a read-only
                // view promises that nobody writes through another one meanwhile.
                let bytes = match length {
                    0 => &[][..],
                    _ => unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>().cast_const(), length) },
                };
                let walked = py.allow_threads(|| self.walk(bytes, first_offset));
                drop(buffer);
                walked
            } else {
                let bytes = buffer.to_vec(py)?; // somebody could write while we read without the lock
                py.allow_threads(|| self.walk(&bytes, first_offset))
            }
        };
        let faults = walked
            .faults
            .into_iter()
            .map(|fault| (fault.first_offset, fault.last_offset, fault.code, fault.why, fault.position, fault.length));
        Ok((walked.position, walked.next_offset, faults.collect(), walked.stopped))
    }

    /// Records so far.
    fn __len__(&self) -> usize {
        self.columns.len()
    }

    /// Bytes of Arrow memory so far.
    #[getter]
    fn bytes(&self) -> usize {
        self.columns.bytes()
    }

    /// Everything so far as one Arrow batch; the scanner is empty afterwards.
    fn finish(&mut self) -> ArrowBatch {
        ArrowBatch::new(self.columns.take())
    }
}

impl Scanner {
    fn walk(&mut self, run: &[u8], first_offset: i64) -> Walked {
        scan(run, first_offset, &self.limits, &mut self.codecs, &mut self.columns)
    }
}
