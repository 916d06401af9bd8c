// Package wire is the loop and the digest that both Go programs share: verbs and answers as in tests/compat/README.md.
package wire

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request is the words of one line.
type Request map[string]string

// Number reads a whole number of the request.
func (r Request) Number(name string) int {
	n, err := strconv.Atoi(r[name])
	if err != nil {
		panic(err)
	}
	return n
}

// Verb answers one request.
type Verb func(Request) (any, error)

// Loop answers line after line until stdin ends.
func Loop(verbs map[string]Verb) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		request := Request{}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			request[name] = value
		}
		found, err := verbs[words[0]](request)
		answer := map[string]any{"ok": found}
		if err != nil {
			answer = map[string]any{"error": fmt.Sprintf("%T: %v", err, err)}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

// Version is that of a module this program was built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, found := range info.Deps {
		if found.Path == module {
			return found.Version
		}
	}
	return "unknown"
}

// Key is nil for every tenth record.
func Key(number int) []byte {
	if number%10 == 9 {
		return nil
	}
	return []byte(fmt.Sprintf("k%010d", number))
}

// Value is a hundred bytes that all say which record it is.
func Value(number int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("%010d", number), 10))
}

// Header is a name and a value.
type Header struct {
	Name  string
	Value []byte
}

// Headers of a record.
func Headers(number int, client string) []Header {
	return []Header{{"client", []byte(client)}, {"n", []byte(strconv.Itoa(number))}}
}

type lane struct {
	first, next, count int64
	digest             hash.Hash
}

// Reading is what one session of a consumer has read.
type Reading struct {
	Count int
	lanes map[int32]*lane
}

// NewReading is empty.
func NewReading() *Reading { return &Reading{lanes: map[int32]*lane{}} }

func (l *lane) sized(data []byte) {
	size := int32(len(data))
	if data == nil {
		size = -1
	}
	l.number(size)
	l.digest.Write(data)
}

func (l *lane) number(value any) {
	if err := binary.Write(l.digest, binary.BigEndian, value); err != nil {
		panic(err)
	}
}

// Add takes one record.
func (r *Reading) Add(partition int32, offset int64, key, value []byte, headers []Header) {
	found, ok := r.lanes[partition]
	if !ok {
		found = &lane{first: offset, digest: sha256.New()}
		r.lanes[partition] = found
	}
	found.number(offset)
	found.sized(key)
	found.sized(value)
	found.number(int32(len(headers)))
	for _, header := range headers {
		found.sized([]byte(header.Name))
		found.sized(header.Value)
	}
	found.next = offset + 1
	found.count++
	r.Count++
}

// Answer is the JSON of the consume verb.
func (r *Reading) Answer() any {
	partitions := map[string]any{}
	for partition, found := range r.lanes {
		key := strconv.Itoa(int(partition))
		partitions[key] = []any{found.first, found.next, found.count, hex.EncodeToString(found.digest.Sum(nil))}
	}
	return map[string]any{"partitions": partitions}
}

// Membership is what a member of a group has seen: its shares in turn, and the offsets it has read per partition.
type Membership struct {
	lock   sync.Mutex
	Shares [][]int32            `json:"shares"`
	Reads  map[string][][]int64 `json:"reads"`
}

// NewMembership is empty.
func NewMembership() *Membership {
	return &Membership{Shares: [][]int32{}, Reads: map[string][][]int64{}}
}

// Share takes note of the partitions that are the member's now.
func (m *Membership) Share(partitions []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	now := append([]int32{}, partitions...)
	slices.Sort(now)
	m.Shares = append(m.Shares, now)
}

// Read takes note of one record.
func (m *Membership) Read(partition int32, offset int64) {
	m.lock.Lock()
	defer m.lock.Unlock()
	key := strconv.Itoa(int(partition))
	ranges := m.Reads[key]
	if n := len(ranges); n > 0 && ranges[n-1][1] == offset {
		ranges[n-1][1] = offset + 1
	} else {
		m.Reads[key] = append(ranges, []int64{offset, offset + 1})
	}
}

// Refused is the JSON of the transaction verb.
func Refused(err error, retriable bool, began time.Time) any {
	text := ""
	if err != nil {
		text = err.Error()
	}
	return map[string]any{"error": text, "final": err != nil && !retriable, "seconds": time.Since(began).Seconds()}
}
