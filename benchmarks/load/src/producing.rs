//! Closed loop of single-batch idempotent produce requests: N connections, M in flight on each.

use crate::link::Link;
use crate::setup::{self, Options};
use crate::wire::{self, CRC_AT, CRC_FROM, SEQUENCE_AT};
use mio::{Events, Interest, Poll, Token};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Producer {
    link: Link,
    partition: usize,
    frame: Vec<u8>,
    batch_at: usize,
    batch_end: usize,
    next: u32,
    answered: u32,
    sent_at: Vec<Instant>,
    last_offset: i64,
}

pub struct Produced {
    pub seconds: f64,
    pub requests: u64,
    pub bytes: u64,
    pub latencies_us: Vec<u32>,
}

impl Producer {
    fn open(options: &Options, number: usize) -> Result<Self, String> {
        let mut stream = setup::connect(&options.address)?;
        let producer = setup::init_producer_id(&mut stream)?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?.as_millis() as i64;
        let batch = wire::batch(options.records, options.bytes, producer, now_ms);
        let partition = number % options.partitions;
        let (frame, batch_at) = wire::produce(options.version, &options.topic, partition as i32, &batch);
        Ok(Producer {
            link: Link::new(stream, 64 * 1024).map_err(|e| e.to_string())?,
            partition,
            batch_end: batch_at + batch.len(),
            frame,
            batch_at,
            next: 0,
            answered: 0,
            sent_at: vec![Instant::now(); options.in_flight],
            last_offset: -1,
        })
    }

    fn send(&mut self, options: &Options, count: usize, now: Instant) -> Result<(), String> {
        for _ in 0..count {
            let number = self.next;
            let sequence = (u64::from(number) * options.records as u64 % (1 << 31)) as i32;
            self.frame[8..12].copy_from_slice(&(number as i32).to_be_bytes());
            let batch = &mut self.frame[self.batch_at..self.batch_end];
            batch[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
            let crc = crc32c::crc32c(&batch[CRC_FROM..]);
            batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
            self.sent_at[number as usize % options.in_flight] = now;
            self.next += 1;
            self.link.out().extend_from_slice(&self.frame);
        }
        self.link.flush()
    }

    /// Reads and checks what has come. How many were answered.
    fn answers(&mut self, options: &Options, now: Instant, into: &mut Produced, offsets: &mut [Vec<i64>]) -> Result<usize, String> {
        let mut count = 0;
        loop {
            let more = self.link.receive()?;
            while let Some(place) = self.link.frame() {
                let (correlation, code, offset) = wire::produced(options.version, &options.topic, self.link.bytes(place))?;
                if correlation != self.answered as i32 {
                    return Err(format!("answer {correlation} came when {} was due", self.answered));
                }
                if code != 0 {
                    return Err(format!("produce request {correlation} failed with code {code}"));
                }
                if offset <= self.last_offset {
                    return Err(format!("offset {offset} after {}", self.last_offset));
                }
                self.last_offset = offset;
                offsets[self.partition].push(offset);
                let sent_at = self.sent_at[self.answered as usize % options.in_flight];
                into.latencies_us.push(now.duration_since(sent_at).as_micros() as u32);
                self.answered += 1;
                count += 1;
            }
            if !more {
                return Ok(count);
            }
        }
    }
}

pub fn run(options: &Options) -> Result<Produced, String> {
    let mut producers = Vec::new();
    for number in 0..options.connections {
        producers.push(Producer::open(options, number)?);
    }
    let mut poll = Poll::new().map_err(|e| e.to_string())?;
    for (number, producer) in producers.iter_mut().enumerate() {
        let wanted = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut producer.link.stream, Token(number), wanted).map_err(|e| e.to_string())?;
    }
    let mut result = Produced { seconds: 0.0, requests: 0, bytes: 0, latencies_us: Vec::new() };
    let mut offsets: Vec<Vec<i64>> = vec![Vec::new(); options.partitions];
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(options.seconds);
    let mut last_answer = began;
    for producer in &mut producers {
        producer.send(options, options.in_flight, began)?;
    }
    let mut open = (options.connections * options.in_flight) as u64;
    let mut events = Events::with_capacity(1024);
    while open > 0 {
        poll.poll(&mut events, Some(Duration::from_secs(1))).map_err(|e| e.to_string())?;
        let now = Instant::now();
        if now.duration_since(last_answer) > Duration::from_secs(30) {
            return Err(format!("no answer for 30 s; {open} requests are open"));
        }
        for event in &events {
            let producer = &mut producers[event.token().0];
            if event.is_writable() {
                producer.link.flush()?;
            }
            if event.is_readable() {
                let answered = producer.answers(options, now, &mut result, &mut offsets)?;
                if answered > 0 {
                    last_answer = now;
                    result.requests += answered as u64;
                    open -= answered as u64;
                    if now < end {
                        producer.send(options, answered, now)?;
                        open += answered as u64;
                    }
                }
            }
        }
    }
    result.seconds = began.elapsed().as_secs_f64();
    result.bytes = result.requests * options.records as u64 * options.bytes as u64;
    check_offsets(&mut offsets, options.records as i64)?;
    Ok(result)
}

/// No two requests may have got the same offsets.
fn check_offsets(offsets: &mut [Vec<i64>], records: i64) -> Result<(), String> {
    for (partition, found) in offsets.iter_mut().enumerate() {
        found.sort_unstable();
        if let Some(pair) = found.windows(2).find(|pair| pair[1] < pair[0] + records) {
            return Err(format!("partition {partition}: two requests got offsets {} and {}", pair[0], pair[1]));
        }
    }
    Ok(())
}
