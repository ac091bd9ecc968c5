// franz-go with kadm: what its users do, step by step, against the broker named in the first argument.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"ottla/conformance/clients/steps"
)

var (
	address = os.Args[1]
	dialer  = &steps.Dialer{}
	admin   *kadm.Client
)

// with is what a client needs, with the walk's own login if there is one.
func with(options ...kgo.Opt) []kgo.Opt {
	if _, login := steps.Access(); login != nil {
		options = append(options, as(scram.Auth{User: login.User, Pass: login.Password}))
	}
	return withoutLogin(options...)
}

func as(login scram.Auth) kgo.Opt { return kgo.SASL(login.AsSha512Mechanism()) }

func withoutLogin(options ...kgo.Opt) []kgo.Opt {
	common := []kgo.Opt{
		kgo.SeedBrokers(address), kgo.ClientID("walk"), kgo.Dialer(dialer.DialContext), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(1),
	}
	if tls, _ := steps.Access(); tls != nil {
		common = append(common, kgo.Dialer(dialer.DialTLS(tls)))
	}
	return append(common, options...)
}

func open(options ...kgo.Opt) *kgo.Client {
	return steps.Get(kgo.NewClient(with(options...)...))
}

func newTopic(ctx context.Context, partitions int32, entries map[string]string) string {
	topic, configs := steps.Unique("franz"), map[string]*string{}
	for name, value := range entries {
		configs[name] = &value
	}
	steps.Get(admin.CreateTopic(ctx, partitions, 1, configs, topic))
	steps.Until("the leaders of "+topic, func() bool {
		found := steps.Get(admin.ListTopics(ctx, topic))
		return found[topic].Err == nil && len(found[topic].Partitions) == int(partitions)
	})
	return topic
}

func produce(ctx context.Context, topic string, options []kgo.Opt, records ...*kgo.Record) error {
	client := open(append(options, kgo.DefaultProduceTopic(topic))...)
	defer client.Close()
	return client.ProduceSync(ctx, records...).FirstErr()
}

func texts(values ...string) []*kgo.Record {
	found := []*kgo.Record{}
	for _, value := range values {
		found = append(found, kgo.StringRecord(value))
	}
	return found
}

// consume reads count records of partition 0 from an offset.
func consume(ctx context.Context, topic string, offset kgo.Offset, count int, options ...kgo.Opt) []*kgo.Record {
	from := map[string]map[int32]kgo.Offset{topic: {0: offset}}
	client := open(append(options, kgo.ConsumePartitions(from))...)
	defer client.Close()
	return take(ctx, client, count)
}

func take(ctx context.Context, client *kgo.Client, count int) []*kgo.Record {
	found := []*kgo.Record{}
	for len(found) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			steps.Fail("%d of %d records: %v", len(found), count, err)
		}
		found = append(found, fetches.Records()...)
	}
	return found
}

func values(records []*kgo.Record) []string {
	found := []string{}
	for _, record := range records {
		found = append(found, string(record.Value))
	}
	return found
}

func fails(err error, code *kerr.Error) {
	if !errors.Is(err, code) {
		steps.Fail("expected %s, not %v", code.Message, err)
	}
}

// join makes a member of a group that polls in the background; stop ends it.
type member struct {
	client *kgo.Client
	stop   context.CancelFunc
	ended  chan struct{}
}

func join(group, topic string, options ...kgo.Opt) *member {
	ctx, stop := context.WithCancel(context.Background())
	base := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.RebalanceTimeout(6 * time.Second), kgo.HeartbeatInterval(300 * time.Millisecond),
	}
	self := &member{client: open(append(base, options...)...), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(self.ended)
		for ctx.Err() == nil {
			self.client.PollFetches(ctx)
		}
	}()
	return self
}

func (m *member) leave() {
	m.stop()
	<-m.ended
	m.client.Close()
}

func owned(ctx context.Context, group string, next bool) []int {
	counts := []int{}
	if next {
		found := steps.Get(admin.DescribeConsumerGroups(ctx, group))
		for _, each := range found[group].Members {
			partitions := 0
			for _, topic := range each.Assignment.Sorted() {
				partitions += len(topic.Partitions)
			}
			counts = append(counts, partitions)
		}
	} else {
		found := steps.Get(admin.DescribeGroups(ctx, group))
		for _, each := range found[group].Members {
			partitions := 0
			if assigned, ok := each.Assigned.AsConsumer(); ok {
				for _, topic := range assigned.Topics {
					partitions += len(topic.Partitions)
				}
			}
			counts = append(counts, partitions)
		}
	}
	return counts
}

func sharesPartitions(ctx context.Context, next bool, options ...kgo.Opt) {
	topic, group := newTopic(ctx, 4, nil), steps.Unique("group")
	first := join(group, topic, options...)
	defer first.leave()
	steps.Until("all partitions for one member", func() bool { return slices.Equal(owned(ctx, group, next), []int{4}) })
	second := join(group, topic, options...)
	steps.Until("two partitions each", func() bool { return slices.Equal(owned(ctx, group, next), []int{2, 2}) })
	second.leave()
	steps.Until("all partitions again", func() bool { return slices.Equal(owned(ctx, group, next), []int{4}) })
}

// goesOn gives the group, whose lag is nothing in the end.
func goesOn(ctx context.Context, options ...kgo.Opt) string {
	topic, group := newTopic(ctx, 1, nil), steps.Unique("group")
	steps.Must(produce(ctx, topic, nil, texts("a", "b", "c", "d")...))
	base := append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, options...)
	first := open(base...)
	found := take(ctx, first, 4)
	steps.Must(first.CommitRecords(ctx, found[1]))
	first.Close()
	steps.Equal("committed", committed(ctx, group, topic), int64(2))
	second := open(base...)
	defer second.Close()
	steps.Equal("values", values(take(ctx, second, 2)), []string{"c", "d"})
	steps.Must(second.CommitUncommittedOffsets(ctx))
	return group
}

func committed(ctx context.Context, group, topic string) int64 {
	found, ok := steps.Get(admin.FetchOffsets(ctx, group)).Lookup(topic, 0)
	if !ok {
		return -1
	}
	steps.Must(found.Err)
	return found.At
}

func offset(listed kadm.ListedOffsets, err error) int64 {
	steps.Must(err)
	steps.Must(listed.Error())
	for _, partitions := range listed {
		return partitions[0].Offset
	}
	return -1
}

func transactional(id string) []kgo.Opt { return []kgo.Opt{kgo.TransactionalID(id)} }

var start = kgo.NewOffset().AtStart()

func main() {
	committedOnly := kgo.FetchIsolationLevel(kgo.ReadCommitted())
	plan := []steps.Step{
		{Name: "connects and describes the cluster", Run: func(ctx context.Context) {
			client := open()
			steps.Must(client.Ping(ctx))
			admin = kadm.NewClient(client)
			found := steps.Get(admin.BrokerMetadata(ctx))
			steps.Equal("brokers", len(found.Brokers), 1)
			steps.Equal("the address", fmt.Sprintf("%s:%d", found.Brokers[0].Host, found.Brokers[0].Port), address)
			steps.Equal("the controller", found.Controller, found.Brokers[0].NodeID)
		}},
		{Name: "asks every broker for its versions", Run: func(ctx context.Context) {
			for _, each := range steps.Get(admin.ApiVersions(ctx)) {
				steps.Must(each.Err)
				_, version, ok := each.KeyVersions(0)
				steps.True(fmt.Sprintf("Produce up to %d", version), ok && version >= 9)
			}
		}},
		{Name: "creates topics with partitions and configs", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 3, map[string]string{"retention.ms": "120000"})
			found := steps.Get(admin.DescribeTopicConfigs(ctx, topic))
			entries := steps.Get(found.On(topic, nil)).Configs
			index := slices.IndexFunc(entries, func(each kadm.Config) bool { return each.Key == "retention.ms" })
			steps.Equal("retention.ms", *entries[index].Value, "120000")
		}},
		{Name: "is refused what no topic can be", Run: func(ctx context.Context) {
			topic, bad := newTopic(ctx, 1, nil), "shred"
			create := func(name string, replicas int16, configs map[string]*string) error {
				_, err := admin.CreateTopic(ctx, 1, replicas, configs, name)
				return err
			}
			fails(create(topic, 1, nil), kerr.TopicAlreadyExists)
			fails(create("no spaces", 1, nil), kerr.InvalidTopicException)
			fails(create(steps.Unique("franz"), 3, nil), kerr.InvalidReplicationFactor)
			fails(create(steps.Unique("franz"), 1, map[string]*string{"cleanup.policy": &bad}), kerr.InvalidConfig)
		}},
		{Name: "is told of an unknown topic", Run: func(ctx context.Context) {
			topic := steps.Unique("missing")
			fails(steps.Get(admin.ListTopics(ctx, topic))[topic].Err, kerr.UnknownTopicOrPartition)
			fails(produce(ctx, topic, nil, texts("a")...), kerr.UnknownTopicOrPartition)
		}},
	}
	for number, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		name := []string{"none", "gzip", "snappy", "lz4", "zstd"}[number]
		plan = append(plan, steps.Step{Name: "produces and consumes with codec " + name, Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			steps.Must(produce(ctx, topic, []kgo.Opt{kgo.ProducerBatchCompression(codec)}, texts(steps.Numbers(200)...)...))
			steps.Equal("values", values(consume(ctx, topic, start, 200)), steps.Numbers(200))
		}})
	}
	for number, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		plan = append(plan, steps.Step{Name: "produces with acks=" + []string{"0", "1", "all"}[number], Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			steps.Must(produce(ctx, topic, []kgo.Opt{kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite()}, texts("a", "b")...))
			steps.Equal("values", values(consume(ctx, topic, start, 2)), []string{"a", "b"})
		}})
	}
	plan = append(plan, []steps.Step{
		{Name: "keeps keys, headers, timestamps and null values", Run: func(ctx context.Context) {
			topic, at := newTopic(ctx, 1, nil), time.UnixMilli(1_600_000_000_123)
			headers := []kgo.RecordHeader{{Key: "trace", Value: []byte("abc")}, {Key: "trace", Value: []byte("def")}, {Key: "null"}}
			steps.Must(produce(ctx, topic, nil,
				&kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: headers, Timestamp: at},
				&kgo.Record{Key: []byte("gone"), Timestamp: at},
				&kgo.Record{Value: []byte{}, Timestamp: at}))
			found := consume(ctx, topic, start, 3)
			steps.Equal("key", string(found[0].Key), "k")
			steps.Equal("headers", found[0].Headers, headers)
			steps.True("the timestamp is kept", found[0].Timestamp.Equal(at))
			steps.True("the value is null", found[1].Value == nil)
			steps.True("the key is null", found[2].Key == nil)
			steps.True("the value is empty", found[2].Value != nil && len(found[2].Value) == 0)
		}},
		{Name: "produces idempotently to many partitions", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 4, nil)
			records := []*kgo.Record{}
			for number := range 2000 {
				records = append(records, &kgo.Record{Partition: int32(number % 4), Value: []byte(fmt.Sprint(number))})
			}
			steps.Must(produce(ctx, topic, nil, records...))
			client := open(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(start))
			defer client.Close()
			seen := map[string]bool{}
			for _, value := range values(take(ctx, client, 2000)) {
				seen[value] = true
			}
			steps.Equal("records", len(seen), 2000)
		}},
		{Name: "produces up to max.message.bytes and is refused more", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, map[string]string{"max.message.bytes": "100000"})
			steps.Must(produce(ctx, topic, nil, texts(strings.Repeat("l", 99_900))...))
			plain := []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}
			fails(produce(ctx, topic, plain, texts(strings.Repeat("l", 100_001))...), kerr.MessageTooLarge)
			steps.Equal("size", len(consume(ctx, topic, start, 1)[0].Value), 99_900)
		}},
		{Name: "is refused a record without a key on a compacted topic", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, map[string]string{"cleanup.policy": "compact"})
			fails(produce(ctx, topic, nil, texts("no key")...), kerr.InvalidRecord)
		}},
		{Name: "commits and aborts transactions, of which read_committed sees only the committed", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			client := open(append(transactional(steps.Unique("tx")), kgo.DefaultProduceTopic(topic))...)
			defer client.Close()
			for _, value := range []string{"a", "aborted", "b"} {
				steps.Must(client.BeginTransaction())
				steps.Must(client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
				steps.Must(client.EndTransaction(ctx, kgo.TransactionEndTry(value != "aborted")))
			}
			steps.Equal("read committed", values(consume(ctx, topic, start, 2, committedOnly)), []string{"a", "b"})
			steps.Equal("read uncommitted", values(consume(ctx, topic, start, 3)), []string{"a", "aborted", "b"})
		}},
		{Name: "shows an open transaction to its administrators", Run: func(ctx context.Context) {
			topic, id := newTopic(ctx, 1, nil), steps.Unique("tx")
			client := open(append(transactional(id), kgo.DefaultProduceTopic(topic))...)
			defer client.Close()
			steps.Must(client.BeginTransaction())
			steps.Must(client.ProduceSync(ctx, kgo.StringRecord("open")).FirstErr())
			described := steps.Get(steps.Get(admin.DescribeTransactions(ctx, id)).On(id, nil))
			steps.Equal("state", described.State, "Ongoing")
			steps.Equal("its topics", described.Topics.Topics(), []string{topic})
			_, listed := steps.Get(admin.ListTransactions(ctx, nil, []string{"Ongoing"}))[id]
			steps.True("it is listed", listed)
			producers := steps.Get(admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}}))
			steps.Equal("its start", producers.SortedProducers()[0].CurrentTxnStartOffset, int64(0))
			steps.Equal("the last stable offset", offset(admin.ListCommittedOffsets(ctx, topic)), int64(0))
			steps.Equal("the end", offset(admin.ListEndOffsets(ctx, topic)), int64(1))
			steps.Must(client.EndTransaction(ctx, kgo.TryCommit))
		}},
		{Name: "consumes, transforms and produces in transactions with offsets", Run: func(ctx context.Context) {
			from, to, group := newTopic(ctx, 1, nil), newTopic(ctx, 1, nil), steps.Unique("group")
			steps.Must(produce(ctx, from, nil, texts("a", "b")...))
			session := steps.Get(kgo.NewGroupTransactSession(with(
				kgo.TransactionalID(steps.Unique("tx")), kgo.ConsumerGroup(group), kgo.ConsumeTopics(from),
				kgo.ConsumeResetOffset(start), committedOnly)...))
			defer session.Close()
			steps.Must(session.Begin())
			fetches := session.PollFetches(ctx)
			steps.Must(fetches.Err())
			for _, record := range fetches.Records() {
				session.Produce(ctx, &kgo.Record{Topic: to, Value: append(record.Value, '!')}, nil)
			}
			if !steps.Get(session.End(ctx, kgo.TryCommit)) {
				steps.Fail("the transaction was aborted")
			}
			steps.Equal("values", values(consume(ctx, to, start, 2, committedOnly)), []string{"a!", "b!"})
			steps.Until("the committed offset", func() bool { return committed(ctx, group, from) == 2 })
		}},
		{Name: "is fenced by a newer producer of its transactional id", Run: func(ctx context.Context) {
			topic, id := newTopic(ctx, 1, nil), steps.Unique("tx")
			older := open(append(transactional(id), kgo.DefaultProduceTopic(topic))...)
			defer older.Close()
			steps.Must(older.BeginTransaction())
			steps.Must(older.ProduceSync(ctx, kgo.StringRecord("old")).FirstErr())
			newer := open(append(transactional(id), kgo.DefaultProduceTopic(topic))...)
			defer newer.Close()
			steps.Must(newer.BeginTransaction())
			steps.Must(newer.ProduceSync(ctx, kgo.StringRecord("new")).FirstErr())
			steps.Must(newer.EndTransaction(ctx, kgo.TryCommit))
			steps.True("the older one cannot go on", older.ProduceSync(ctx, kgo.StringRecord("too late")).FirstErr() != nil)
			steps.Equal("values", values(consume(ctx, topic, start, 1, committedOnly)), []string{"new"})
		}},
		{Name: "consumes from an offset, a time and the end", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			records := texts("a", "b", "c")
			for number, record := range records {
				record.Timestamp = time.UnixMilli(1_600_000_001_000 + 1000*int64(number))
			}
			steps.Must(produce(ctx, topic, nil, records...))
			steps.Equal("from an offset", values(consume(ctx, topic, kgo.NewOffset().At(2), 1)), []string{"c"})
			steps.Equal("from the end", values(consume(ctx, topic, kgo.NewOffset().AtEnd().Relative(-1), 1)), []string{"c"})
			steps.Equal("from a time", values(consume(ctx, topic, kgo.NewOffset().AfterMilli(1_600_000_001_500), 2)), []string{"b", "c"})
		}},
		{Name: "lists offsets of every kind", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			records := texts("a", "b", "c")
			for number, record := range records {
				record.Timestamp = time.UnixMilli(1_600_000_001_000 + 1000*int64(number))
			}
			steps.Must(produce(ctx, topic, nil, records...))
			steps.Equal("start", offset(admin.ListStartOffsets(ctx, topic)), int64(0))
			steps.Equal("end", offset(admin.ListEndOffsets(ctx, topic)), int64(3))
			steps.Equal("largest time", offset(admin.ListMaxTimestampOffsets(ctx, topic)), int64(2))
			steps.Equal("local start", offset(admin.ListLocalLogStartOffsets(ctx, topic)), int64(0))
			steps.Equal("by time", offset(admin.ListOffsetsAfterMilli(ctx, 1_600_000_001_500, topic)), int64(1))
		}},
		{Name: "shares partitions in a classic group, cooperative and sticky", Run: func(ctx context.Context) {
			sharesPartitions(ctx, false, kgo.Balancers(kgo.CooperativeStickyBalancer()))
		}},
		{Name: "shares partitions in a classic group, by range", Run: func(ctx context.Context) {
			sharesPartitions(ctx, false, kgo.Balancers(kgo.RangeBalancer()))
		}},
		{Name: "shares partitions in a consumer group (KIP-848)", Run: func(ctx context.Context) {
			sharesPartitions(ctx, true, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
		}},
		{Name: "goes on from the committed offset in a classic group, and tells the lag", Run: func(ctx context.Context) {
			lag := steps.Get(admin.Lag(ctx, goesOn(ctx)))
			steps.Must(lag.Error())
			for _, each := range lag {
				steps.Equal("the lag", each.Lag.Total(), int64(0))
			}
		}},
		{Name: "goes on from the committed offset in a consumer group (KIP-848)", Run: func(ctx context.Context) {
			goesOn(ctx, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
		}},
		{Name: "takes from a share group (KIP-932) and acknowledges", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 1, nil), steps.Unique("share")
			client := open(kgo.ShareGroup(group), kgo.ConsumeTopics(topic))
			seen := []string{}
			steps.Until("a record of the share group", func() bool {
				// it begins at the end of the topic, so go on sending until the first one arrives
				steps.Must(produce(ctx, topic, nil, texts("later")...))
				short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
				defer stop()
				for _, record := range client.PollFetches(short).Records() {
					seen = append(seen, string(record.Value))
					record.Ack(kgo.AckAccept)
				}
				return len(seen) > 0
			})
			client.Close()
			steps.Equal("value", seen[0], "later")
			described := steps.Get(admin.DescribeShareGroups(ctx, group))
			steps.Equal("state", described[group].GroupState, "Empty")
		}},
		{Name: "lists, describes and deletes groups", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 2, nil), steps.Unique("group")
			one := join(group, topic)
			steps.Until("the join", func() bool { return slices.Equal(owned(ctx, group, false), []int{2}) })
			listed := steps.Get(admin.ListGroups(ctx, "Stable"))
			steps.Equal("its type", listed[group].ProtocolType, "consumer")
			described := steps.Get(admin.DescribeGroups(ctx, group))[group]
			steps.Must(described.Err)
			steps.Equal("state", described.State, "Stable")
			remove := func() error {
				_, err := admin.DeleteGroup(ctx, group)
				return err
			}
			fails(remove(), kerr.NonEmptyGroup)
			one.leave()
			steps.Must(remove())
			fails(remove(), kerr.GroupIDNotFound)
		}},
		{Name: "commits and deletes offsets of an empty group", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 1, nil), steps.Unique("group")
			offsets := kadm.Offsets{}
			offsets.AddOffset(topic, 0, 7, -1)
			steps.Must(admin.CommitAllOffsets(ctx, group, offsets))
			steps.Equal("committed", committed(ctx, group, topic), int64(7))
			steps.Get(admin.DeleteOffsets(ctx, group, kadm.TopicsSet{topic: {0: {}}}))
			steps.Equal("committed", committed(ctx, group, topic), int64(-1))
		}},
		{Name: "alters configs of a topic", Run: func(ctx context.Context) {
			topic, bytes, policy, bad := newTopic(ctx, 1, map[string]string{"retention.ms": "120000"}), "2097152", "compact", "many"
			value := func(name string) string {
				entries := steps.Get(steps.Get(admin.DescribeTopicConfigs(ctx, topic)).On(topic, nil)).Configs
				return *entries[slices.IndexFunc(entries, func(each kadm.Config) bool { return each.Key == name })].Value
			}
			alter := func(changes ...kadm.AlterConfig) error {
				found := steps.Get(admin.AlterTopicConfigs(ctx, changes, topic))
				return found[0].Err
			}
			steps.Must(alter(
				kadm.AlterConfig{Op: kadm.SetConfig, Name: "segment.bytes", Value: &bytes},
				kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &policy},
				kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}))
			steps.Until("the new settings", func() bool { return value("segment.bytes") == bytes })
			steps.Equal("cleanup.policy", value("cleanup.policy"), "delete,compact")
			steps.Equal("retention.ms", value("retention.ms"), "604800000")
			fails(alter(kadm.AlterConfig{Op: kadm.SetConfig, Name: "segment.bytes", Value: &bad}), kerr.InvalidConfig)
		}},
		{Name: "adds partitions, and is refused fewer", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 2, nil)
			steps.Must(steps.Get(admin.UpdatePartitions(ctx, 5, topic))[topic].Err)
			steps.Until("five partitions", func() bool { return len(steps.Get(admin.ListTopics(ctx, topic))[topic].Partitions) == 5 })
			fails(steps.Get(admin.UpdatePartitions(ctx, 3, topic))[topic].Err, kerr.InvalidPartitions)
		}},
		{Name: "deletes records, and is refused beyond the end", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			steps.Must(produce(ctx, topic, nil, texts("a", "b", "c")...))
			remove := func(before int64) kadm.DeleteRecordsResponse {
				offsets := kadm.Offsets{}
				offsets.AddOffset(topic, 0, before, -1)
				return steps.Get(admin.DeleteRecords(ctx, offsets))[topic][0]
			}
			steps.Equal("the low watermark", remove(2).LowWatermark, int64(2))
			steps.Equal("values", values(consume(ctx, topic, start, 1)), []string{"c"})
			fails(remove(7).Err, kerr.OffsetOutOfRange)
		}},
		{Name: "describes log directories, elects leaders, lists reassignments", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			set := kadm.TopicsSet{topic: {0: {}}}
			steps.Must(produce(ctx, topic, nil, texts(strings.Repeat("v", 1000))...))
			size := int64(0)
			for _, each := range steps.Get(admin.DescribeAllLogDirs(ctx, set)) {
				steps.Must(each.Error())
				size += each.Size()
			}
			steps.True("the partition has its size", size > 0)
			elected := steps.Get(admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set))
			fails(elected[topic][0].Err, kerr.ElectionNotNeeded)
			steps.Equal("reassignments", len(steps.Get(admin.ListPartitionReassignments(ctx, set))), 0)
		}},
		{Name: "deletes topics", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			steps.Get(admin.DeleteTopic(ctx, topic))
			_, err := admin.DeleteTopic(ctx, topic)
			fails(err, kerr.UnknownTopicOrPartition)
		}},
		steps.WhenSecured("manages ACLs", func(ctx context.Context) {
			topic, user := steps.Unique("acl"), "User:"+steps.Unique("user")
			acls := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternPrefixed).
				Operations(kadm.OpRead, kadm.OpWrite).Allow(user).AllowHosts()
			for _, created := range steps.Get(admin.CreateACLs(ctx, acls)) {
				steps.Must(created.Err)
			}
			described := func(count int) func() bool {
				return func() bool {
					found := steps.Get(admin.DescribeACLs(ctx, acls))
					steps.Equal("filters", len(found), 2)
					return !slices.ContainsFunc(found, func(each kadm.DescribeACLsResult) bool {
						steps.Must(each.Err)
						return len(each.Described) != count
					})
				}
			}
			steps.Until("one ACL of each operation", described(1))
			for _, deleted := range steps.Get(admin.DeleteACLs(ctx, acls)) {
				steps.Must(deleted.Err)
				steps.Equal("deleted ACLs", len(deleted.Deleted), 1)
			}
			steps.Until("no ACL", described(0))
		}),
		steps.WhenLoggedIn("is refused what an ACL denies, until it is gone", func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			denial := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).
				Operations(kadm.OpWrite).Deny("User:" + steps.Guest.User).DenyHosts()
			steps.Get(admin.CreateACLs(ctx, denial))
			guest := steps.Get(kgo.NewClient(withoutLogin(
				as(scram.Auth{User: steps.Guest.User, Pass: steps.Guest.Password}), kgo.DefaultProduceTopic(topic))...))
			defer guest.Close()
			steps.Until("the denial", func() bool {
				return errors.Is(guest.ProduceSync(ctx, texts("denied")...).FirstErr(), kerr.TopicAuthorizationFailed)
			})
			steps.Get(admin.DeleteACLs(ctx, denial))
			// Where there is no ACL of a resource, everybody is let in.
			steps.Until("the permission", func() bool { return guest.ProduceSync(ctx, texts("allowed")...).FirstErr() == nil })
		}),
		steps.WhenLoggedIn("makes a delegation token, logs in by it and ends it", func(ctx context.Context) {
			token := steps.Get(admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{MaxLifetime: time.Hour}))
			described := func() bool {
				found := steps.Get(admin.DescribeDelegationTokens(ctx))
				return slices.ContainsFunc(found, func(each kadm.DelegationToken) bool { return each.TokenID == token.TokenID })
			}
			steps.Until("the token", described)
			password := base64.StdEncoding.EncodeToString(token.HMAC)
			holder := steps.Get(kgo.NewClient(withoutLogin(as(scram.Auth{User: token.TokenID, Pass: password, IsToken: true}))...))
			defer holder.Close()
			steps.Until("a login by the token", func() bool { return holder.Ping(ctx) == nil })
			steps.Get(admin.RenewDelegationToken(ctx, token.HMAC, time.Minute))
			steps.Get(admin.ExpireDelegationToken(ctx, token.HMAC, -time.Millisecond))
			steps.Until("the end of the token", func() bool { return !described() })
		}),
		{Name: "manages client quotas", Run: func(ctx context.Context) {
			client := steps.Unique("client")
			entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &client}}
			alter := func(operation kadm.AlterClientQuotaOp) {
				altered := steps.Get(admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{
					{Entity: entity, Ops: []kadm.AlterClientQuotaOp{operation}},
				}))
				steps.Must(altered[0].Err)
			}
			described := func() kadm.DescribedClientQuotas {
				return steps.Get(admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{
					{Type: "client-id", MatchName: &client, MatchType: kmsg.QuotasMatchTypeExact},
				}))
			}
			alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1e6})
			steps.Until("the quota", func() bool {
				found := described()
				return len(found) == 1 && found[0].Values[0].Value == 1e6
			})
			alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true})
			steps.Until("its end", func() bool { return len(described()) == 0 })
		}},
		{Name: "manages SCRAM users", Run: func(ctx context.Context) {
			user := steps.Unique("user")
			made := steps.Get(admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
				{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"},
			}))
			steps.Must(made[user].Err)
			steps.Until("the user", func() bool {
				found := steps.Get(admin.DescribeUserSCRAMs(ctx, user))[user]
				return found.Err == nil && slices.Equal(found.CredInfos, []kadm.CredInfo{{Mechanism: kadm.ScramSha256, Iterations: 4096}})
			})
			gone := steps.Get(admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}, nil))
			steps.Must(gone[user].Err)
			steps.Until("its end", func() bool { return steps.Get(admin.DescribeUserSCRAMs(ctx, user))[user].Err != nil })
		}},
		{Name: "goes on after its connections were cut", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, nil)
			client := open(kgo.DefaultProduceTopic(topic))
			defer client.Close()
			for _, value := range []string{"before", "after"} {
				steps.Must(client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
				dialer.Cut()
			}
			steps.Equal("values", values(consume(ctx, topic, start, 2)), []string{"before", "after"})
		}},
	}...)
	steps.Walk(plan)
}
