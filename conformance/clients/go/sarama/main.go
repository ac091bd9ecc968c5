// Sarama: what its users do, step by step, against the broker named in the first argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"ottla/conformance/clients/steps"
)

var (
	address = os.Args[1]
	dialer  = &steps.Dialer{}
	admin   sarama.ClusterAdmin
)

func config(changes ...func(*sarama.Config)) *sarama.Config {
	found := sarama.NewConfig()
	found.ClientID = "walk"
	found.Version = sarama.MaxVersion
	found.Net.Proxy.Enable = true
	found.Net.Proxy.Dialer = dialer
	found.Metadata.AllowAutoTopicCreation = false
	found.Producer.Return.Successes = true
	found.Producer.RequiredAcks = sarama.WaitForAll
	found.Producer.Partitioner = sarama.NewManualPartitioner
	found.Consumer.Offsets.Initial = sarama.OffsetOldest
	found.Consumer.MaxWaitTime = 200 * time.Millisecond
	found.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	found.Consumer.Group.Session.Timeout = 6 * time.Second
	found.Consumer.Group.Rebalance.Timeout = 6 * time.Second
	if tls, login := steps.Access(); tls != nil {
		found.Net.TLS.Enable, found.Net.TLS.Config = true, tls
		if login != nil {
			found.Net.SASL.Enable, found.Net.SASL.User, found.Net.SASL.Password = true, login.User, login.Password
			found.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
			found.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{} }
		}
	}
	for _, change := range changes {
		change(found)
	}
	return found
}

// scramClient is what sarama leaves to its users: SCRAM-SHA-512 by xdg-go/scram.
type scramClient struct{ *scram.ClientConversation }

func (c *scramClient) Begin(user, password, authorization string) error {
	client, err := scram.SHA512.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func newTopic(partitions int32, entries map[string]string) string {
	topic := steps.Unique("sarama")
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	for name, value := range entries {
		detail.ConfigEntries[name] = &value
	}
	steps.Must(admin.CreateTopic(topic, detail, false))
	steps.Until("the leaders of "+topic, func() bool {
		found := steps.Get(admin.DescribeTopics([]string{topic}))
		return found[0].Err == sarama.ErrNoError && len(found[0].Partitions) == int(partitions)
	})
	return topic
}

func produce(topic string, changes []func(*sarama.Config), messages ...*sarama.ProducerMessage) error {
	producer := steps.Get(sarama.NewSyncProducer([]string{address}, config(changes...)))
	defer producer.Close()
	for _, message := range messages {
		message.Topic = topic
	}
	return producer.SendMessages(messages)
}

// aclsOf finds every ACL of one topic's pattern.
func aclsOf(topic string, pattern sarama.AclResourcePatternType) sarama.AclFilter {
	return sarama.AclFilter{
		Version: 1, ResourceType: sarama.AclResourceTopic, ResourceName: &topic, ResourcePatternTypeFilter: pattern,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
}

func texts(values ...string) []*sarama.ProducerMessage {
	found := []*sarama.ProducerMessage{}
	for _, value := range values {
		found = append(found, &sarama.ProducerMessage{Value: sarama.StringEncoder(value)})
	}
	return found
}

// consume reads count messages of partition 0 from an offset.
func consume(ctx context.Context, topic string, offset int64, count int, changes ...func(*sarama.Config)) []*sarama.ConsumerMessage {
	consumer := steps.Get(sarama.NewConsumer([]string{address}, config(changes...)))
	defer consumer.Close()
	partition := steps.Get(consumer.ConsumePartition(topic, 0, offset))
	defer partition.Close()
	return take(ctx, partition, count)
}

func take(ctx context.Context, partition sarama.PartitionConsumer, count int) []*sarama.ConsumerMessage {
	found := []*sarama.ConsumerMessage{}
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case err := <-partition.Errors():
			steps.Fail("%v", err)
		case <-ctx.Done():
			steps.Fail("%d of %d messages", len(found), count)
		}
	}
	return found
}

func values(messages []*sarama.ConsumerMessage) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, string(message.Value))
	}
	return found
}

// member is a member of a group; it keeps what it was given and what it read.
type member struct {
	group   sarama.ConsumerGroup
	stop    context.CancelFunc
	ended   chan struct{}
	mutex   sync.Mutex
	claims  []int32
	found   []*sarama.ConsumerMessage
	commit  int64
	session sarama.ConsumerGroupSession
}

func join(group, topic string, commit int64, changes ...func(*sarama.Config)) *member {
	ctx, stop := context.WithCancel(context.Background())
	all := append([]func(*sarama.Config){func(c *sarama.Config) { c.Consumer.Offsets.AutoCommit.Enable = false }}, changes...)
	self := &member{stop: stop, ended: make(chan struct{}), commit: commit}
	self.group = steps.Get(sarama.NewConsumerGroup([]string{address}, group, config(all...)))
	go func() {
		defer close(self.ended)
		for ctx.Err() == nil {
			if err := self.group.Consume(ctx, []string{topic}, self); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	return self
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session, m.claims = session, nil
	for _, partitions := range session.Claims() {
		m.claims = append(m.claims, partitions...)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.mutex.Lock()
		m.found = append(m.found, message)
		m.mutex.Unlock()
		if message.Offset+1 == m.commit {
			session.MarkMessage(message, "half")
			session.Commit()
		}
	}
	return nil
}

func (m *member) partitions() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.claims)
}

func (m *member) messages() []*sarama.ConsumerMessage {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.found)
}

func (m *member) leave() {
	m.stop()
	m.group.Close()
	<-m.ended
}

func sharesPartitions(strategy sarama.BalanceStrategy) {
	topic, group := newTopic(4, nil), steps.Unique("group")
	change := func(c *sarama.Config) {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	}
	first := join(group, topic, -1, change)
	defer first.leave()
	steps.Until("all partitions for one member", func() bool { return len(first.partitions()) == 4 })
	second := join(group, topic, -1, change)
	steps.Until("two partitions each", func() bool { return len(first.partitions()) == 2 && len(second.partitions()) == 2 })
	all := append(first.partitions(), second.partitions()...)
	slices.Sort(all)
	steps.Equal("the partitions", all, []int32{0, 1, 2, 3})
	second.leave()
	steps.Until("all partitions again", func() bool { return len(first.partitions()) == 4 })
}

func committed(group, topic string) (int64, string) {
	found := steps.Get(admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}))
	block := found.GetBlock(topic, 0)
	steps.Must(kerror(block.Err))
	return block.Offset, block.Metadata
}

func kerror(err sarama.KError) error {
	if err == sarama.ErrNoError {
		return nil
	}
	return err
}

// fails ends the step unless the error is, or wraps, the code.
func fails(err error, code sarama.KError) {
	var topic *sarama.TopicError
	var partition *sarama.TopicPartitionError
	var several sarama.ProducerErrors
	switch {
	case err == nil:
		steps.Fail("expected %q, there was no error", code.Error())
	case errors.Is(err, code), errors.As(err, &topic) && topic.Err == code, errors.As(err, &partition) && partition.Err == code:
	case errors.As(err, &several) && errors.Is(several[0].Err, code):
	case strings.Contains(err.Error(), code.Error()):
	default:
		steps.Fail("expected %q, not %v", code.Error(), err)
	}
}

func transactional(id string) func(*sarama.Config) {
	return func(c *sarama.Config) {
		c.Producer.Idempotent = true
		c.Producer.Transaction.ID = id
		c.Net.MaxOpenRequests = 1
	}
}

func readCommitted(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted }

func main() {
	sarama.MaxRequestSize = 4 * 1024 * 1024
	plan := []steps.Step{
		{Name: "connects and describes the cluster", Run: func(context.Context) {
			admin = steps.Get(sarama.NewClusterAdmin([]string{address}, config()))
			brokers, controller, err := admin.DescribeCluster()
			steps.Must(err)
			steps.Equal("brokers", len(brokers), 1)
			steps.Equal("the broker's address", brokers[0].Addr(), address)
			steps.Equal("the controller", controller, brokers[0].ID())
		}},
		{Name: "creates topics with partitions and configs", Run: func(context.Context) {
			topic := newTopic(3, map[string]string{"retention.ms": "120000"})
			found := steps.Get(admin.ListTopics())[topic]
			steps.Equal("partitions", found.NumPartitions, int32(3))
			steps.Equal("retention.ms", *found.ConfigEntries["retention.ms"], "120000")
		}},
		{Name: "creates a topic with an assignment", Run: func(context.Context) {
			brokers, _, err := admin.DescribeCluster()
			steps.Must(err)
			node := brokers[0].ID()
			detail := &sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {node}, 1: {node}}}
			steps.Must(admin.CreateTopic(steps.Unique("sarama"), detail, false))
		}},
		{Name: "is told that a topic exists", Run: func(context.Context) {
			topic := newTopic(1, nil)
			fails(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false), sarama.ErrTopicAlreadyExists)
		}},
		{Name: "is refused a topic with an invalid config", Run: func(context.Context) {
			bad := "shred"
			detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"cleanup.policy": &bad}}
			fails(admin.CreateTopic(steps.Unique("sarama"), detail, false), sarama.ErrInvalidConfig)
		}},
		{Name: "is refused too many replicas", Run: func(context.Context) {
			detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}
			fails(admin.CreateTopic(steps.Unique("sarama"), detail, false), sarama.ErrInvalidReplicationFactor)
		}},
		{Name: "validates a topic without creating it", Run: func(context.Context) {
			topic := steps.Unique("sarama")
			steps.Must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, true))
			_, exists := steps.Get(admin.ListTopics())[topic]
			steps.True("the topic does not exist", !exists)
		}},
		{Name: "is told of an unknown topic", Run: func(context.Context) {
			found := steps.Get(admin.DescribeTopics([]string{steps.Unique("missing")}))
			steps.Equal("its error", found[0].Err, sarama.ErrUnknownTopicOrPartition)
		}},
		{Name: "is refused a message to an unknown topic", Run: func(context.Context) {
			fails(produce(steps.Unique("missing"), nil, texts("a")...), sarama.ErrUnknownTopicOrPartition)
		}},
	}
	codecs := []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	}
	for _, codec := range codecs {
		plan = append(plan, steps.Step{Name: "produces and consumes with codec " + codec.String(), Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			change := func(c *sarama.Config) { c.Producer.Compression = codec }
			steps.Must(produce(topic, []func(*sarama.Config){change}, texts(steps.Numbers(200)...)...))
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 200)), steps.Numbers(200))
		}})
	}
	for _, acks := range []sarama.RequiredAcks{sarama.NoResponse, sarama.WaitForLocal, sarama.WaitForAll} {
		plan = append(plan, steps.Step{Name: fmt.Sprintf("produces with acks=%d", acks), Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			change := func(c *sarama.Config) { c.Producer.RequiredAcks = acks }
			steps.Must(produce(topic, []func(*sarama.Config){change}, texts("a", "b")...))
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 2)), []string{"a", "b"})
		}})
	}
	for _, version := range []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.DefaultVersion, sarama.V3_6_0_0} {
		plan = append(plan, steps.Step{Name: "produces and consumes as for Kafka " + version.String(), Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			change := func(c *sarama.Config) { c.Version = version }
			steps.Must(produce(topic, []func(*sarama.Config){change}, texts("a", "b")...))
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 2, change)), []string{"a", "b"})
		}})
	}
	plan = append(plan, []steps.Step{
		{Name: "keeps keys, headers, timestamps and null values", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			at := time.UnixMilli(1_600_000_000_123)
			headers := []sarama.RecordHeader{{Key: []byte("trace"), Value: []byte("abc")}, {Key: []byte("trace"), Value: []byte("def")}, {Key: []byte("empty")}}
			steps.Must(produce(topic, nil,
				&sarama.ProducerMessage{Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("v"), Headers: headers, Timestamp: at},
				&sarama.ProducerMessage{Key: sarama.StringEncoder("gone"), Timestamp: at},
				&sarama.ProducerMessage{Value: sarama.StringEncoder(""), Timestamp: at}))
			found := consume(ctx, topic, sarama.OffsetOldest, 3)
			steps.Equal("key", string(found[0].Key), "k")
			steps.True("the timestamp is kept", found[0].Timestamp.Equal(at))
			steps.Equal("headers", len(found[0].Headers), 3)
			steps.Equal("the second header", string(found[0].Headers[1].Value), "def")
			steps.True("the value is null", found[1].Value == nil)
			steps.True("the key is null", found[2].Key == nil)
			steps.True("the value is empty", found[2].Value != nil && len(found[2].Value) == 0)
		}},
		{Name: "keeps the broker's time on a topic that asks for it", Run: func(ctx context.Context) {
			topic := newTopic(1, map[string]string{"message.timestamp.type": "LogAppendTime"})
			before := time.Now().Add(-time.Minute)
			steps.Must(produce(topic, nil, &sarama.ProducerMessage{Value: sarama.StringEncoder("v"), Timestamp: time.UnixMilli(1000)}))
			steps.True("the broker's time", consume(ctx, topic, sarama.OffsetOldest, 1)[0].Timestamp.After(before))
		}},
		{Name: "produces asynchronously to many partitions", Run: func(ctx context.Context) {
			topic := newTopic(4, nil)
			producer := steps.Get(sarama.NewAsyncProducer([]string{address}, config(func(c *sarama.Config) {
				c.Producer.Partitioner = sarama.NewHashPartitioner
				c.Producer.Flush.Frequency = 10 * time.Millisecond
			})))
			go func() {
				for number := range 1000 {
					key := sarama.StringEncoder(fmt.Sprint(number))
					producer.Input() <- &sarama.ProducerMessage{Topic: topic, Key: key, Value: key}
				}
			}()
			partitions := map[int32]int{}
			for range 1000 {
				select {
				case message := <-producer.Successes():
					partitions[message.Partition]++
				case err := <-producer.Errors():
					steps.Fail("%v", err)
				case <-ctx.Done():
					steps.Fail("only %v were acknowledged", partitions)
				}
			}
			steps.Must(producer.Close())
			steps.Equal("partitions", len(partitions), 4)
			steps.Equal("messages of partition 0", len(consume(ctx, topic, sarama.OffsetOldest, partitions[0])), partitions[0])
		}},
		{Name: "produces a record just below max.message.bytes", Run: func(ctx context.Context) {
			topic := newTopic(1, map[string]string{"max.message.bytes": "100000"})
			steps.Must(produce(topic, nil, texts(strings.Repeat("l", 99_900))...))
			steps.Equal("size", len(consume(ctx, topic, sarama.OffsetOldest, 1)[0].Value), 99_900)
		}},
		{Name: "is refused a record above max.message.bytes", Run: func(context.Context) {
			topic := newTopic(1, map[string]string{"max.message.bytes": "100000"})
			fails(produce(topic, nil, texts(strings.Repeat("l", 100_001))...), sarama.ErrMessageSizeTooLarge)
		}},
		{Name: "is refused a record without a key on a compacted topic", Run: func(context.Context) {
			topic := newTopic(1, map[string]string{"cleanup.policy": "compact"})
			fails(produce(topic, nil, texts("no key")...), sarama.ErrInvalidRecord)
		}},
		{Name: "produces idempotently", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			change := func(c *sarama.Config) { c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1 }
			steps.Must(produce(topic, []func(*sarama.Config){change}, texts(steps.Numbers(50)...)...))
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 50)), steps.Numbers(50))
		}},
		{Name: "commits and aborts transactions, of which read_committed sees only the committed", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			producer := steps.Get(sarama.NewSyncProducer([]string{address}, config(transactional(steps.Unique("tx")))))
			defer producer.Close()
			for _, value := range []string{"a", "aborted", "b"} {
				steps.Must(producer.BeginTxn())
				_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
				steps.Must(err)
				if value == "aborted" {
					steps.Must(producer.AbortTxn())
				} else {
					steps.Must(producer.CommitTxn())
				}
			}
			steps.Equal("read committed", values(consume(ctx, topic, sarama.OffsetOldest, 2, readCommitted)), []string{"a", "b"})
			steps.Equal("read uncommitted", values(consume(ctx, topic, sarama.OffsetOldest, 3)), []string{"a", "aborted", "b"})
		}},
		{Name: "holds read_committed at an open transaction", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			producer := steps.Get(sarama.NewSyncProducer([]string{address}, config(transactional(steps.Unique("tx")))))
			defer producer.Close()
			steps.Must(producer.BeginTxn())
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("open")})
			steps.Must(err)
			steps.Must(produce(topic, nil, texts("behind")...))
			offset := func(level sarama.IsolationLevel) int64 {
				asked := map[string]map[int32]int64{topic: {0: sarama.OffsetNewest}}
				found := steps.Get(admin.ListOffsets(asked, &sarama.ListOffsetsOptions{IsolationLevel: level}))
				steps.True("an answer for the partition", errors.Is(found[topic][0].Err, sarama.ErrNoError) || found[topic][0].Err == nil)
				return found[topic][0].Offset
			}
			steps.Equal("the last stable offset", offset(sarama.ReadCommitted), int64(0))
			steps.Equal("the end", offset(sarama.ReadUncommitted), int64(2))
			steps.Must(producer.CommitTxn())
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 2, readCommitted)), []string{"open", "behind"})
		}},
		{Name: "commits offsets in a transaction, and none with an aborted one", Run: func(context.Context) {
			topic, group := newTopic(1, nil), steps.Unique("group")
			producer := steps.Get(sarama.NewSyncProducer([]string{address}, config(transactional(steps.Unique("tx")))))
			defer producer.Close()
			for _, offset := range []int64{5, 9} {
				steps.Must(producer.BeginTxn())
				offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: offset, LeaderEpoch: -1}}}
				steps.Must(producer.AddOffsetsToTxn(offsets, group))
				if offset == 5 {
					steps.Must(producer.CommitTxn())
				} else {
					steps.Must(producer.AbortTxn())
				}
			}
			steps.Until("the committed offset", func() bool { offset, _ := committed(group, topic); return offset == 5 })
		}},
		{Name: "is fenced by a newer producer of its transactional id", Run: func(ctx context.Context) {
			topic, id := newTopic(1, nil), steps.Unique("tx")
			older := steps.Get(sarama.NewSyncProducer([]string{address}, config(transactional(id))))
			defer older.Close()
			steps.Must(older.BeginTxn())
			_, _, err := older.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("old")})
			steps.Must(err)
			newer := steps.Get(sarama.NewSyncProducer([]string{address}, config(transactional(id))))
			defer newer.Close()
			steps.Must(newer.BeginTxn())
			_, _, err = newer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("new")})
			steps.Must(err)
			steps.Must(newer.CommitTxn())
			steps.True("the older one cannot commit", older.CommitTxn() != nil)
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 1, readCommitted)), []string{"new"})
		}},
		{Name: "consumes from the latest offset", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			steps.Must(produce(topic, nil, texts("before")...))
			consumer := steps.Get(sarama.NewConsumer([]string{address}, config()))
			defer consumer.Close()
			partition := steps.Get(consumer.ConsumePartition(topic, 0, sarama.OffsetNewest))
			defer partition.Close()
			steps.Must(produce(topic, nil, texts("after")...))
			steps.Equal("values", values(take(ctx, partition, 1)), []string{"after"})
		}},
		{Name: "consumes from an offset, and is told when it is out of range", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			steps.Must(produce(topic, nil, texts(steps.Numbers(10)...)...))
			steps.Equal("values", values(consume(ctx, topic, 7, 3)), steps.Numbers(10)[7:])
			consumer := steps.Get(sarama.NewConsumer([]string{address}, config()))
			defer consumer.Close()
			_, err := consumer.ConsumePartition(topic, 0, 99)
			fails(err, sarama.ErrOffsetOutOfRange)
		}},
		{Name: "finds offsets by timestamp", Run: func(context.Context) {
			topic := newTopic(1, nil)
			messages := texts("a", "b", "c")
			for number, message := range messages {
				message.Timestamp = time.UnixMilli(1_600_000_001_000 + 1000*int64(number))
			}
			steps.Must(produce(topic, nil, messages...))
			client := steps.Get(sarama.NewClient([]string{address}, config()))
			defer client.Close()
			for asked, want := range map[int64]int64{
				1_600_000_001_500: 1, 1_700_000_000_000: -1, sarama.OffsetOldest: 0, sarama.OffsetNewest: 3,
			} {
				steps.Equal(fmt.Sprintf("the offset at %d", asked), steps.Get(client.GetOffset(topic, 0, asked)), want)
			}
		}},
		{Name: "shares partitions in a group with the range strategy", Run: func(context.Context) {
			sharesPartitions(sarama.NewBalanceStrategyRange())
		}},
		{Name: "shares partitions in a group with the sticky strategy", Run: func(context.Context) {
			sharesPartitions(sarama.NewBalanceStrategySticky())
		}},
		{Name: "goes on from the committed offset, and tells the lag", Run: func(context.Context) {
			topic, group := newTopic(1, nil), steps.Unique("group")
			steps.Must(produce(topic, nil, texts("a", "b", "c", "d")...))
			first := join(group, topic, 2)
			steps.Until("all messages", func() bool { return len(first.messages()) == 4 })
			first.leave()
			offset, metadata := committed(group, topic)
			steps.Equal("committed", offset, int64(2))
			steps.Equal("metadata", metadata, "half")
			end := steps.Get(admin.ListOffsets(map[string]map[int32]int64{topic: {0: sarama.OffsetNewest}}, &sarama.ListOffsetsOptions{}))
			steps.Equal("lag", end[topic][0].Offset-offset, int64(2))
			second := join(group, topic, -1)
			defer second.leave()
			steps.Until("the other half", func() bool { return len(second.messages()) == 2 })
			steps.Equal("values", values(second.messages()), []string{"c", "d"})
		}},
		{Name: "rejoins as a static member with the same partitions", Run: func(context.Context) {
			topic, group := newTopic(2, nil), steps.Unique("group")
			static := func(c *sarama.Config) { c.Consumer.Group.InstanceId = "one" }
			first := join(group, topic, -1, static)
			steps.Until("the join", func() bool { return len(first.partitions()) == 2 })
			first.leave()
			second := join(group, topic, -1, static)
			defer second.leave()
			steps.Until("the second join", func() bool { return len(second.partitions()) == 2 })
			described := steps.Get(admin.DescribeConsumerGroups([]string{group}))
			steps.Equal("members", len(described[0].Members), 1)
			for _, each := range described[0].Members {
				steps.Equal("its instance", *each.GroupInstanceId, "one")
			}
			removed := steps.Get(admin.RemoveMemberFromConsumerGroup(group, []string{"one"}))
			steps.Must(kerror(removed.Err))
		}},
		{Name: "lists, describes and deletes groups", Run: func(context.Context) {
			topic, group := newTopic(2, nil), steps.Unique("group")
			one := join(group, topic, -1)
			steps.Until("the join", func() bool { return len(one.partitions()) == 2 })
			steps.Equal("its type", steps.Get(admin.ListConsumerGroups())[group], "consumer")
			described := steps.Get(admin.DescribeConsumerGroups([]string{group}))[0]
			steps.Equal("state", described.State, "Stable")
			steps.Equal("protocol", described.Protocol, "range")
			steps.Equal("members", len(described.Members), 1)
			fails(admin.DeleteConsumerGroup(group), sarama.ErrNonEmptyGroup)
			one.leave()
			steps.Must(admin.DeleteConsumerGroup(group))
			_, listed := steps.Get(admin.ListConsumerGroups())[group]
			steps.True("the group is gone", !listed)
			fails(admin.DeleteConsumerGroup(group), sarama.ErrGroupIDNotFound)
		}},
		{Name: "alters and deletes offsets of a group", Run: func(context.Context) {
			topic, group := newTopic(1, nil), steps.Unique("group")
			offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 7, Metadata: "m", LeaderEpoch: -1}}}
			steps.Get(admin.AlterConsumerGroupOffsets(group, offsets, &sarama.AlterConsumerGroupOffsetsOptions{}))
			offset, metadata := committed(group, topic)
			steps.Equal("committed", offset, int64(7))
			steps.Equal("metadata", metadata, "m")
			steps.Must(admin.DeleteConsumerGroupOffset(group, topic, 0))
			offset, _ = committed(group, topic)
			steps.Equal("committed", offset, int64(-1))
		}},
		{Name: "describes and alters configs of a topic", Run: func(context.Context) {
			topic := newTopic(1, map[string]string{"retention.ms": "120000"})
			value := func(name string) string {
				resource := &sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}}
				options := sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true}
				found := steps.Get(admin.DescribeConfigs([]*sarama.ConfigResource{resource}, options))
				steps.Must(kerror(found[0].ErrorCode))
				return found[0].Configs[0].Value
			}
			steps.Equal("retention.ms", value("retention.ms"), "120000")
			bytes, policy, bad := "2097152", "compact", "many"
			steps.Must(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
				"segment.bytes":  {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &bytes},
				"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: &policy},
				"retention.ms":   {Operation: sarama.IncrementalAlterConfigsOperationDelete},
			}, false))
			steps.Until("the new settings", func() bool { return value("segment.bytes") == bytes })
			steps.Equal("cleanup.policy", value("cleanup.policy"), "delete,compact")
			steps.Equal("retention.ms", value("retention.ms"), "604800000")
			steps.Must(admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"segment.bytes": &bytes}, false))
			steps.Until("the old policy", func() bool { return value("cleanup.policy") == "delete" })
			wrong := map[string]sarama.IncrementalAlterConfigsEntry{
				"segment.bytes": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &bad},
			}
			err := admin.IncrementalAlterConfig(sarama.TopicResource, topic, wrong, false)
			steps.True(fmt.Sprintf("an invalid value is refused by its name: %v", err), err != nil && strings.Contains(err.Error(), "segment.bytes"))
		}},
		{Name: "describes configs of a broker", Run: func(context.Context) {
			brokers, _, err := admin.DescribeCluster()
			steps.Must(err)
			node := fmt.Sprint(brokers[0].ID())
			entries := steps.Get(admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: node}))
			found := map[string]sarama.ConfigEntry{}
			for _, each := range entries {
				found[each.Name] = each
			}
			steps.Equal("node.id", found["node.id"].Value, node)
			steps.True("node.id is read-only", found["node.id"].ReadOnly)
		}},
		{Name: "adds partitions, and is refused fewer", Run: func(context.Context) {
			topic := newTopic(2, nil)
			steps.Must(admin.CreatePartitions(topic, 5, nil, false))
			steps.Until("five partitions", func() bool { return len(steps.Get(admin.DescribeTopics([]string{topic}))[0].Partitions) == 5 })
			fails(admin.CreatePartitions(topic, 3, nil, false), sarama.ErrInvalidPartitions)
		}},
		{Name: "deletes records", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			steps.Must(produce(topic, nil, texts("a", "b", "c")...))
			steps.Must(admin.DeleteRecords(topic, map[int32]int64{0: 2}))
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 1)), []string{"c"})
			fails(admin.DeleteRecords(topic, map[int32]int64{0: 7}), sarama.ErrOffsetOutOfRange)
		}},
		{Name: "describes log directories", Run: func(context.Context) {
			topic := newTopic(1, nil)
			steps.Must(produce(topic, nil, texts(strings.Repeat("v", 1000))...))
			brokers, _, err := admin.DescribeCluster()
			steps.Must(err)
			size := int64(0)
			for _, directory := range steps.Get(admin.DescribeLogDirs([]int32{brokers[0].ID()}))[brokers[0].ID()] {
				for _, each := range directory.Topics {
					if each.Topic == topic {
						size += each.Partitions[0].Size
					}
				}
			}
			steps.True("the partition has its size", size > 1000)
		}},
		{Name: "lists reassignments, of which there are none", Run: func(context.Context) {
			topic := newTopic(1, nil)
			steps.Equal("reassignments", len(steps.Get(admin.ListPartitionReassignments(topic, []int32{0}))[topic]), 0)
		}},
		{Name: "elects leaders, where none is needed", Run: func(context.Context) {
			topic := newTopic(1, nil)
			found, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}})
			steps.Must(err)
			steps.Equal("its answer", found[topic][0].ErrorCode, sarama.ErrElectionNotNeeded)
		}},
		{Name: "deletes topics", Run: func(context.Context) {
			topic := newTopic(1, nil)
			steps.Must(admin.DeleteTopic(topic))
			steps.Until("no such topic", func() bool { _, exists := steps.Get(admin.ListTopics())[topic]; return !exists })
			fails(admin.DeleteTopic(topic), sarama.ErrUnknownTopicOrPartition)
		}},
		steps.WhenSecured("manages ACLs", func(context.Context) {
			topic, user := steps.Unique("acl"), "User:"+steps.Unique("user")
			steps.Must(admin.CreateACLs([]*sarama.ResourceAcls{{
				Resource: sarama.Resource{
					ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternPrefixed,
				},
				Acls: []*sarama.Acl{
					{Principal: user, Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow},
					{Principal: user, Host: "*", Operation: sarama.AclOperationWrite, PermissionType: sarama.AclPermissionDeny},
				},
			}}))
			filter := aclsOf(topic, sarama.AclPatternPrefixed)
			steps.Until("both ACLs", func() bool {
				found := steps.Get(admin.ListAcls(filter))
				return len(found) == 1 && len(found[0].Acls) == 2 && found[0].Acls[0].Principal == user
			})
			steps.Equal("deleted ACLs", len(steps.Get(admin.DeleteACL(filter, false))), 2)
			steps.Until("their end", func() bool { return len(steps.Get(admin.ListAcls(filter))) == 0 })
		}),
		steps.WhenLoggedIn("is refused what an ACL denies, until it is gone", func(context.Context) {
			topic := newTopic(1, nil)
			resource := sarama.Resource{
				ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternLiteral,
			}
			steps.Must(admin.CreateACL(resource, sarama.Acl{
				Principal: "User:" + steps.Guest.User, Host: "*", Operation: sarama.AclOperationWrite,
				PermissionType: sarama.AclPermissionDeny,
			}))
			guest := []func(*sarama.Config){func(config *sarama.Config) {
				config.Net.SASL.User, config.Net.SASL.Password = steps.Guest.User, steps.Guest.Password
			}}
			steps.Until("the denial", func() bool {
				var failed sarama.ProducerErrors
				err := produce(topic, guest, texts("denied")...)
				return errors.As(err, &failed) && errors.Is(failed[0].Err, sarama.ErrTopicAuthorizationFailed)
			})
			steps.Get(admin.DeleteACL(aclsOf(topic, sarama.AclPatternLiteral), false))
			// Where there is no ACL of a resource, everybody is let in.
			steps.Until("the permission", func() bool { return produce(topic, guest, texts("allowed")...) == nil })
		}),
		{Name: "manages client quotas", Run: func(context.Context) {
			client := steps.Unique("client")
			entity := []sarama.QuotaEntityComponent{
				{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: client},
			}
			filter := []sarama.QuotaFilterComponent{
				{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: client},
			}
			steps.Must(admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}, false))
			steps.Until("the quota", func() bool {
				found := steps.Get(admin.DescribeClientQuotas(filter, true))
				return len(found) == 1 && found[0].Values["producer_byte_rate"] == 1e6
			})
			steps.Must(admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false))
			steps.Until("its end", func() bool { return len(steps.Get(admin.DescribeClientQuotas(filter, true))) == 0 })
		}},
		{Name: "manages SCRAM users", Run: func(context.Context) {
			user := steps.Unique("user")
			made := steps.Get(admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
				Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_512, Iterations: 4096, Salt: []byte("salt"), Password: []byte("secret"),
			}}))
			steps.Equal("the answer", made[0].ErrorCode, sarama.ErrNoError)
			steps.Until("the user", func() bool {
				found := steps.Get(admin.DescribeUserScramCredentials([]string{user}))
				return found[0].ErrorCode == sarama.ErrNoError && found[0].CredentialInfos[0].Iterations == 4096
			})
			gone := steps.Get(admin.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{
				{Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_512},
			}))
			steps.Equal("the answer", gone[0].ErrorCode, sarama.ErrNoError)
			steps.Until("its end", func() bool {
				return steps.Get(admin.DescribeUserScramCredentials([]string{user}))[0].ErrorCode != sarama.ErrNoError
			})
		}},
		{Name: "goes on after its connections were cut", Run: func(ctx context.Context) {
			topic := newTopic(1, nil)
			producer := steps.Get(sarama.NewSyncProducer([]string{address}, config()))
			defer producer.Close()
			for _, value := range []string{"before", "after"} {
				_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
				steps.Must(err)
				dialer.Cut()
			}
			steps.Equal("values", values(consume(ctx, topic, sarama.OffsetOldest, 2)), []string{"before", "after"})
			steps.Get(admin.ListTopics())
		}},
		{Name: "joins by the new consumer protocol (KIP-848)", LeftOut: "sarama has only the classic one"},
	}...)
	steps.Walk(plan)
}
