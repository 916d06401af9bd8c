// The client program for franz-go with its defaults (idempotent producer).
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"frazil.test/compat/wire"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func hello(wire.Request) (any, error) {
	return map[string]string{
		"client":  "franz-go " + wire.Version("github.com/twmb/franz-go"),
		"library": runtime.Version() + ", kadm " + wire.Version("github.com/twmb/franz-go/pkg/kadm"),
	}, nil
}

func produce(r wire.Request) (any, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(r["bootstrap"]), kgo.DefaultProduceTopic(r["topic"]), kgo.ProducerBatchCompression(codecs[r["codec"]]))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	var failed error
	acked := 0
	for n := range r.Number("count") {
		record := &kgo.Record{Key: wire.Key(n), Value: wire.Value(n)}
		for _, header := range wire.Headers(n, r["name"]) {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { // promises are called one after the other
			if err != nil {
				failed = err
			} else {
				acked++
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	return map[string]int{"acked": acked}, failed
}

func consume(r wire.Request) (any, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r["bootstrap"]), kgo.ConsumerGroup(r["group"]), kgo.ConsumeTopics(r["topic"]),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond), // a fetch for the partitions known first holds up those that follow; 5 s by default
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	reading := wire.NewReading()
	for enough := r.Number("enough"); reading.Count < enough && ctx.Err() == nil; {
		fetches := client.PollRecords(ctx, 1000)
		for _, failed := range fetches.Errors() {
			return nil, failed.Err
		}
		for _, record := range fetches.Records() {
			headers := make([]wire.Header, 0, len(record.Headers))
			for _, header := range record.Headers {
				headers = append(headers, wire.Header{Name: header.Key, Value: header.Value})
			}
			reading.Add(record.Partition, record.Offset, record.Key, record.Value, headers)
		}
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return nil, err
	}
	return reading.Answer(), client.LeaveGroupContext(ctx)
}

func member(r wire.Request) (any, error) {
	seen := wire.NewMembership()
	mine := map[int32]bool{}
	change := func(lost bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			for _, partition := range changed[r["topic"]] {
				if lost {
					delete(mine, partition)
				} else {
					mine[partition] = true
				}
			}
			seen.Share(slices.Collect(maps.Keys(mine)))
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(r["bootstrap"]), kgo.ConsumerGroup(r["group"]), kgo.ConsumeTopics(r["topic"]), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500 * time.Millisecond), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsAssigned(change(false)), kgo.OnPartitionsRevoked(change(true)), kgo.OnPartitionsLost(change(true)),
	}
	if r["assignor"] == "range" {
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Number("lasting"))*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		for _, record := range client.PollRecords(ctx, 100).Records() {
			seen.Read(record.Partition, record.Offset)
		}
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "read again by whoever has the partition next:", err)
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	return seen, nil
}

func transaction(r wire.Request) (any, error) {
	began := time.Now()
	client, err := kgo.NewClient(kgo.SeedBrokers(r["bootstrap"]), kgo.TransactionalID(r["topic"]), kgo.DefaultProduceTopic(r["topic"]))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	err = client.BeginTransaction()
	if err == nil {
		err = client.ProduceSync(context.Background(), &kgo.Record{Value: []byte("x")}).FirstErr()
	}
	if err == nil {
		err = client.EndTransaction(context.Background(), kgo.TryCommit)
	}
	return wire.Refused(err, kerr.IsRetriable(err), began), nil
}

func admin(r wire.Request) (any, error) {
	topic, group := r["topic"], r["group"]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r["bootstrap"]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond), // kadm answers from metadata up to this old
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	face := kadm.NewClient(client)
	seen := map[string]any{}
	var trouble []error
	keep := func(err error) { trouble = append(trouble, err) }
	partitions := func() int {
		found, err := face.ListTopics(ctx, topic)
		keep(err)
		return len(found[topic].Partitions)
	}
	retention := func() string {
		found, err := face.DescribeTopicConfigs(ctx, topic)
		keep(err)
		one, err := found.On(topic, nil)
		keep(err)
		for _, config := range one.Configs {
			if config.Key == "retention.ms" {
				return *config.Value
			}
		}
		return "none"
	}
	place := func() int64 {
		found, err := face.FetchOffsets(ctx, group)
		keep(err)
		one, _ := found.Lookup(topic, 0)
		return one.At
	}
	listed := func(found kadm.ListedOffsets, err error) int64 {
		keep(err)
		one, _ := found.Lookup(topic, 0)
		keep(one.Err)
		return one.Offset
	}
	grouped := func() bool {
		found, err := face.ListGroups(ctx)
		keep(err)
		_, there := found[group]
		return there
	}

	cluster, err := face.BrokerMetadata(ctx)
	keep(err)
	seen["brokers"], seen["cluster id"] = len(cluster.Brokers), len(cluster.Cluster)
	value := "7200000"
	_, err = face.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &value}, topic)
	keep(err)
	_, err = face.CreateTopic(ctx, 3, 1, nil, topic)
	seen["create again"] = fmt.Sprint(err)
	names, err := face.ListTopics(ctx)
	keep(err)
	seen["listed"] = names.Has(topic)
	seen["partitions"], seen["retention"] = partitions(), retention()
	value = "3600000"
	altered, err := face.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic)
	keep(errors.Join(err, altered[0].Err))
	seen["altered"] = retention()
	grown, err := face.UpdatePartitions(ctx, 5, topic)
	keep(errors.Join(err, grown[topic].Err))
	seen["grown"] = partitions()
	first := time.Now().Add(-time.Minute)
	for n := range 10 {
		record := &kgo.Record{Topic: topic, Partition: 0, Timestamp: first.Add(time.Duration(n) * time.Second), Value: []byte("v" + strconv.Itoa(n))}
		keep(client.ProduceSync(ctx, record).FirstErr())
	}
	seen["earliest"] = listed(face.ListStartOffsets(ctx, topic))
	seen["latest"] = listed(face.ListEndOffsets(ctx, topic))
	seen["at time"] = listed(face.ListOffsetsAfterMilli(ctx, first.UnixMilli()+3500, topic))
	seen["newest time"] = listed(face.ListMaxTimestampOffsets(ctx, topic))
	_, err = consume(wire.Request{"bootstrap": r["bootstrap"], "topic": topic, "group": group, "enough": "10"})
	keep(err)
	seen["group listed"] = grouped()
	described, err := face.DescribeGroups(ctx, group)
	keep(err)
	seen["group state"], seen["group offset"] = described[group].State, place()
	moved := kadm.Offsets{}
	moved.AddOffset(topic, 0, 3, -1)
	keep(face.CommitAllOffsets(ctx, group, moved))
	seen["group moved"] = place()
	cut := kadm.Offsets{}
	cut.AddOffset(topic, 0, 5, -1)
	_, err = face.DeleteRecords(ctx, cut)
	keep(err)
	seen["records deleted"] = listed(face.ListStartOffsets(ctx, topic))
	_, err = face.DeleteGroup(ctx, group)
	keep(err)
	seen["group deleted"] = !grouped()
	_, err = face.DeleteTopic(ctx, topic)
	keep(err)
	time.Sleep(100 * time.Millisecond)
	names, err = face.ListTopics(ctx)
	keep(err)
	seen["deleted"] = !names.Has(topic)
	return seen, errors.Join(trouble...)
}

func main() {
	wire.Loop(map[string]wire.Verb{"hello": hello, "produce": produce, "consume": consume, "member": member, "transaction": transaction, "admin": admin})
}
