//! One connection: bytes out as far as the socket takes them, whole frames in.

use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};

pub struct Link {
    pub stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Link {
    pub fn new(stream: std::net::TcpStream, buffer_bytes: usize) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Link { stream: TcpStream::from_std(stream), out: Vec::new(), sent: 0, buffer: vec![0; buffer_bytes], start: 0, end: 0 })
    }

    /// Where the next request is written; `flush` sends it.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    pub fn flush(&mut self) -> Result<(), String> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err("the broker closed the connection".into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("send: {error}")),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Takes what has come; true when there may be more (the buffer was full).
    pub fn receive(&mut self) -> Result<bool, String> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        loop {
            if self.end == self.buffer.len() {
                self.make_room();
            }
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err("the broker closed the connection".into()),
                Ok(count) => {
                    self.end += count;
                    return Ok(self.end == self.buffer.len());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("receive: {error}")),
            }
        }
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else {
            let larger = self.buffer.len() * 2;
            self.buffer.resize(larger, 0);
        }
    }

    /// The next whole frame without its size, if it is there.
    pub fn frame(&mut self) -> Option<(usize, usize)> {
        let have = self.end - self.start;
        if have < 4 {
            return None;
        }
        let size = i32::from_be_bytes(self.buffer[self.start..self.start + 4].try_into().unwrap()).max(0) as usize;
        if have < 4 + size {
            let wanted = 4 + size;
            if self.buffer.len() - self.start < wanted {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                if self.buffer.len() < wanted {
                    self.buffer.resize(wanted, 0);
                }
            }
            return None;
        }
        let from = self.start + 4;
        self.start = from + size;
        Some((from, size))
    }

    pub fn bytes(&self, place: (usize, usize)) -> &[u8] {
        &self.buffer[place.0..place.0 + place.1]
    }
}
