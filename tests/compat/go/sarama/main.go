// The client program for sarama: its defaults, with the idempotent producer when asked for it.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"frazil.test/compat/wire"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func hello(wire.Request) (any, error) {
	version := sarama.NewConfig().Version.String()
	return map[string]string{
		"client":  "sarama " + wire.Version("github.com/IBM/sarama"),
		"library": runtime.Version() + ", speaks " + version,
	}, nil
}

func produce(r wire.Request) (any, error) {
	config := sarama.NewConfig()
	config.Producer.Compression = codecs[r["codec"]]
	config.Producer.Return.Successes = true
	if r["idempotent"] == "1" { // what sarama demands of its users then
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewAsyncProducer([]string{r["bootstrap"]}, config)
	if err != nil {
		return nil, err
	}
	count := r.Number("count")
	go func() {
		for n := range count {
			message := &sarama.ProducerMessage{Topic: r["topic"], Value: sarama.ByteEncoder(wire.Value(n))}
			if key := wire.Key(n); key != nil {
				message.Key = sarama.ByteEncoder(key)
			}
			for _, header := range wire.Headers(n, r["name"]) {
				message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
			}
			producer.Input() <- message
		}
	}()
	acked := 0
	var failed error
	for range count {
		select {
		case <-producer.Successes():
			acked++
		case bad := <-producer.Errors():
			failed = bad.Err
		}
	}
	answer := map[string]any{"acked": acked}
	if failed != nil { // sarama gives up after three tries, or when its circuit breaker opens; its user sends again or not
		answer["failed"] = failed.Error()
	}
	return answer, producer.Close()
}

type session struct {
	enough  int
	reading *wire.Reading
	taken   chan *sarama.ConsumerMessage
	done    context.CancelFunc
}

func (s *session) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (s *session) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// One claim at a time may add, so that the session ends with exactly what was marked.
func (s *session) ConsumeClaim(group sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-group.Context().Done():
			return nil
		case message, more := <-claim.Messages():
			if !more || !s.take(message) {
				return nil
			}
			group.MarkMessage(message, "")
		}
	}
}

var turn = make(chan struct{}, 1)

func (s *session) take(message *sarama.ConsumerMessage) bool {
	turn <- struct{}{}
	defer func() { <-turn }()
	if s.reading.Count >= s.enough {
		return false
	}
	headers := make([]wire.Header, 0, len(message.Headers))
	for _, header := range message.Headers {
		headers = append(headers, wire.Header{Name: string(header.Key), Value: header.Value})
	}
	s.reading.Add(message.Partition, message.Offset, message.Key, message.Value, headers)
	if s.reading.Count >= s.enough {
		s.done()
	}
	return true
}

func consume(r wire.Request) (any, error) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup([]string{r["bootstrap"]}, r["group"], config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	session := &session{enough: r.Number("enough"), reading: wire.NewReading(), done: cancel}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{r["topic"]}, session); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return session.reading.Answer(), group.Close()
}

type membership struct {
	topic string
	seen  *wire.Membership
}

func (m *membership) Setup(group sarama.ConsumerGroupSession) error {
	m.seen.Share(group.Claims()[m.topic])
	return nil
}
func (m *membership) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *membership) ConsumeClaim(group sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-group.Context().Done():
			return nil
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			m.seen.Read(message.Partition, message.Offset)
			group.MarkMessage(message, "")
		}
	}
}

func member(r wire.Request) (any, error) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{r["bootstrap"]}, r["group"], config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Number("lasting"))*time.Second)
	defer cancel()
	seen := wire.NewMembership()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{r["topic"]}, &membership{r["topic"], seen}); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return seen, group.Close()
}

func transaction(r wire.Request) (any, error) {
	began := time.Now()
	config := sarama.NewConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = r["topic"]
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{r["bootstrap"]}, config)
	if err == nil {
		err = producer.BeginTxn()
		if err == nil {
			_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: r["topic"], Value: sarama.StringEncoder("x")})
		}
		if err == nil {
			err = producer.CommitTxn()
		}
		err = errors.Join(err, producer.Close())
	}
	return wire.Refused(err, false, began), nil
}

func admin(r wire.Request) (any, error) {
	topic, group := r["topic"], r["group"]
	config := sarama.NewConfig()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	client, err := sarama.NewClient([]string{r["bootstrap"]}, config)
	if err != nil {
		return nil, err
	}
	face, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	defer face.Close()
	seen := map[string]any{}
	var trouble []error
	keep := func(err error) { trouble = append(trouble, err) }
	partitions := func() int {
		found, err := face.DescribeTopics([]string{topic})
		keep(err)
		return len(found[0].Partitions)
	}
	retention := func() string {
		found, err := face.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
		keep(err)
		return found[0].Value
	}
	place := func() int64 {
		found, err := face.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
		keep(err)
		return found.GetBlock(topic, 0).Offset
	}
	offset := func(at int64) int64 {
		keep(client.RefreshMetadata(topic))
		found, err := client.GetOffset(topic, 0, at)
		keep(err)
		return found
	}
	grouped := func() bool {
		found, err := face.ListConsumerGroups()
		keep(err)
		_, there := found[group]
		return there
	}
	named := func() bool {
		found, err := face.ListTopics()
		keep(err)
		_, there := found[topic]
		return there
	}

	brokers, _, err := face.DescribeCluster()
	keep(err)
	seen["brokers"] = len(brokers)
	value := "7200000"
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &value}}
	keep(face.CreateTopic(topic, detail, false))
	seen["create again"] = fmt.Sprint(face.CreateTopic(topic, detail, false))
	seen["listed"], seen["partitions"], seen["retention"] = named(), partitions(), retention()
	changed := "3600000"
	set := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &changed}}
	keep(face.IncrementalAlterConfig(sarama.TopicResource, topic, set, false))
	seen["altered"] = retention()
	keep(face.CreatePartitions(topic, 5, nil, false))
	seen["grown"] = partitions()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return nil, err
	}
	first := time.Now().Add(-time.Minute)
	for n := range 10 {
		at := first.Add(time.Duration(n) * time.Second)
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: 0, Timestamp: at, Value: sarama.StringEncoder("v" + strconv.Itoa(n))})
		keep(err)
	}
	seen["earliest"], seen["latest"], seen["at time"] = offset(sarama.OffsetOldest), offset(sarama.OffsetNewest), offset(first.UnixMilli()+3500)
	_, err = consume(wire.Request{"bootstrap": r["bootstrap"], "topic": topic, "group": group, "enough": "10"})
	keep(err)
	seen["group listed"] = grouped()
	described, err := face.DescribeConsumerGroups([]string{group})
	keep(err)
	seen["group state"], seen["group offset"] = described[0].State, place()
	offsets, err := sarama.NewOffsetManagerFromClient(group, client)
	keep(err)
	mover, err := offsets.ManagePartition(topic, 0)
	keep(err)
	mover.ResetOffset(3, "")
	offsets.Commit()
	keep(mover.Close())
	keep(offsets.Close())
	seen["group moved"] = place()
	keep(face.DeleteRecords(topic, map[int32]int64{0: 5}))
	seen["records deleted"] = offset(sarama.OffsetOldest)
	keep(face.DeleteConsumerGroup(group))
	seen["group deleted"] = !grouped()
	keep(face.DeleteTopic(topic))
	seen["deleted"] = !named()
	return seen, errors.Join(trouble...)
}

func main() {
	wire.Loop(map[string]wire.Verb{"hello": hello, "produce": produce, "consume": consume, "member": member, "transaction": transaction, "admin": admin})
}
