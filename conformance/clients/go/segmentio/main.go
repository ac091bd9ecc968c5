// segmentio/kafka-go: what its users do, step by step, against the broker named in the first argument.
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

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"

	"ottla/conformance/clients/steps"
)

var (
	address   = os.Args[1]
	wire      = &steps.Dialer{}
	config, _ = steps.Access()
	dialer    = &kafka.Dialer{ClientID: "walk", Timeout: 10 * time.Second, DialFunc: wire.DialContext, TLS: config, SASLMechanism: login()}
	transport = &kafka.Transport{ClientID: "walk", Dial: wire.DialContext, TLS: config, SASL: login()}
	client    = &kafka.Client{Addr: kafka.TCP(address), Timeout: 20 * time.Second, Transport: transport}
)

func login() sasl.Mechanism {
	if _, found := steps.Access(); found != nil {
		return steps.Get(scram.Mechanism(scram.SHA512, found.User, found.Password))
	}
	return nil
}

func newTopic(ctx context.Context, partitions int, entries ...kafka.ConfigEntry) string {
	topic := steps.Unique("segmentio")
	steps.Must(create(ctx, kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: entries}))
	steps.Until("the leaders of "+topic, func() bool {
		found, err := dialer.LookupPartitions(ctx, "tcp", address, topic)
		return err == nil && len(found) == partitions
	})
	return topic
}

func create(ctx context.Context, topic kafka.TopicConfig) error {
	found, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return err
	}
	return found.Errors[topic.Topic]
}

func write(ctx context.Context, topic string, changes func(*kafka.Writer), messages ...kafka.Message) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(address), Topic: topic, Transport: transport, RequiredAcks: kafka.RequireAll,
		Balancer: &kafka.Hash{}, BatchTimeout: 10 * time.Millisecond, BatchBytes: 4 << 20,
	}
	if changes != nil {
		changes(writer)
	}
	defer writer.Close()
	return writer.WriteMessages(ctx, messages...)
}

func texts(values ...string) []kafka.Message {
	found := []kafka.Message{}
	for _, value := range values {
		found = append(found, kafka.Message{Value: []byte(value)})
	}
	return found
}

func newReader(config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers, config.Dialer, config.MaxWait = []string{address}, dialer, 200*time.Millisecond
	return kafka.NewReader(config)
}

// read gives the first count messages of partition 0.
func read(ctx context.Context, topic string, count int, level kafka.IsolationLevel) []kafka.Message {
	reader := newReader(kafka.ReaderConfig{Topic: topic, Partition: 0, IsolationLevel: level})
	defer reader.Close()
	return take(ctx, reader, count)
}

func take(ctx context.Context, reader *kafka.Reader, count int) []kafka.Message {
	found := []kafka.Message{}
	for len(found) < count {
		found = append(found, steps.Get(reader.FetchMessage(ctx)))
	}
	return found
}

func values(messages []kafka.Message) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, string(message.Value))
	}
	return found
}

func fails(err error, code kafka.Error) {
	var several kafka.WriteErrors
	if errors.As(err, &several) {
		err = several[0]
	}
	if !errors.Is(err, code) {
		steps.Fail("expected %q, not %v", code.Title(), err)
	}
}

// member is a member of a group; it keeps what it was given.
type member struct {
	group *kafka.ConsumerGroup
	stop  context.CancelFunc
	ended chan struct{}
	mutex sync.Mutex
	given []int
}

func join(group, topic string) *member {
	ctx, stop := context.WithCancel(context.Background())
	self := &member{stop: stop, ended: make(chan struct{})}
	self.group = steps.Get(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{address}, Dialer: dialer, Topics: []string{topic}, HeartbeatInterval: 300 * time.Millisecond,
		SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second, JoinGroupBackoff: 300 * time.Millisecond,
	}))
	go func() {
		defer close(self.ended)
		for {
			generation, err := self.group.Next(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				continue
			}
			partitions := []int{}
			for _, each := range generation.Assignments[topic] {
				partitions = append(partitions, each.ID)
			}
			self.mutex.Lock()
			self.given = partitions
			self.mutex.Unlock()
			generation.Start(func(ctx context.Context) { <-ctx.Done() })
		}
	}()
	return self
}

func (m *member) partitions() []int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.given)
}

func (m *member) leave() {
	m.stop()
	m.group.Close()
	<-m.ended
}

func committed(ctx context.Context, group, topic string) int64 {
	var found *kafka.OffsetFetchResponse
	steps.Until("the group's coordinator", func() bool {
		found = steps.Get(client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}}))
		return !busy(found.Error)
	})
	steps.Must(found.Error)
	steps.Must(found.Topics[topic][0].Error)
	return found.Topics[topic][0].CommittedOffset
}

func end(ctx context.Context, topic string, level kafka.IsolationLevel) (first, last int64) {
	asked := map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}
	found := steps.Get(client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: asked, IsolationLevel: level}))
	steps.Must(found.Topics[topic][0].Error)
	return found.Topics[topic][0].FirstOffset, found.Topics[topic][0].LastOffset
}

// busy says that a coordinator is not ready yet: its Client leaves it to its users to try again.
func busy(err error) bool {
	codes := []kafka.Error{
		kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.ConcurrentTransactions,
	}
	return slices.ContainsFunc(codes, func(code kafka.Error) bool { return errors.Is(err, code) })
}

// transaction opens a transaction and puts partition 0 of a topic into it.
func transaction(ctx context.Context, id, topic string) *kafka.ProducerSession {
	// Its Client sends producer id 0 where none is given; -1 asks for a fresh one.
	var initialised *kafka.InitProducerIDResponse
	steps.Until("a producer id", func() bool {
		initialised = steps.Get(client.InitProducerID(ctx, &kafka.InitProducerIDRequest{
			TransactionalID: id, TransactionTimeoutMs: 10_000, ProducerID: -1, ProducerEpoch: -1,
		}))
		return !busy(initialised.Error)
	})
	steps.Must(initialised.Error)
	added := steps.Get(client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: id, ProducerID: initialised.Producer.ProducerID, ProducerEpoch: initialised.Producer.ProducerEpoch,
		Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}}},
	}))
	steps.Must(added.Topics[topic][0].Error)
	return initialised.Producer
}

func endTransaction(ctx context.Context, id string, session *kafka.ProducerSession, commit bool) error {
	found, err := client.EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, Committed: commit,
	})
	if err != nil {
		return err
	}
	return found.Error
}

func main() {
	plan := []steps.Step{
		{Name: "connects and lists the APIs", Run: func(ctx context.Context) {
			found := steps.Get(client.ApiVersions(ctx, &kafka.ApiVersionsRequest{}))
			steps.Must(found.Error)
			steps.True("there is Produce", slices.ContainsFunc(found.ApiKeys, func(each kafka.ApiVersionsResponseApiKey) bool { return each.ApiName == "Produce" }))
		}},
		{Name: "reads the metadata of the cluster", Run: func(ctx context.Context) {
			found := steps.Get(client.Metadata(ctx, &kafka.MetadataRequest{}))
			steps.Equal("brokers", len(found.Brokers), 1)
			steps.Equal("the address", fmt.Sprintf("%s:%d", found.Brokers[0].Host, found.Brokers[0].Port), address)
			steps.Equal("the controller", found.Controller.ID, found.Brokers[0].ID)
			steps.True("a cluster id", found.ClusterID != "")
		}},
		{Name: "creates topics with partitions and configs", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 3, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "120000"})
			found := steps.Get(client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}}))
			steps.Equal("partitions", len(found.Topics[0].Partitions), 3)
		}},
		{Name: "is told that a topic exists", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			fails(create(ctx, kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}), kafka.TopicAlreadyExists)
		}},
		{Name: "is refused a topic with an invalid config", Run: func(ctx context.Context) {
			bad := []kafka.ConfigEntry{{ConfigName: "cleanup.policy", ConfigValue: "shred"}}
			fails(create(ctx, kafka.TopicConfig{Topic: steps.Unique("segmentio"), NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: bad}), kafka.InvalidConfiguration)
		}},
		{Name: "is refused too many replicas", Run: func(ctx context.Context) {
			fails(create(ctx, kafka.TopicConfig{Topic: steps.Unique("segmentio"), NumPartitions: 1, ReplicationFactor: 3}), kafka.InvalidReplicationFactor)
		}},
		{Name: "is told of an unknown topic", Run: func(ctx context.Context) {
			found := steps.Get(client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{steps.Unique("missing")}}))
			fails(found.Topics[0].Error, kafka.UnknownTopicOrPartition)
		}},
		{Name: "is refused a message to an unknown topic", Run: func(ctx context.Context) {
			fails(write(ctx, steps.Unique("missing"), func(w *kafka.Writer) { w.MaxAttempts = 2 }, texts("a")...), kafka.UnknownTopicOrPartition)
		}},
	}
	for name, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		plan = append(plan, steps.Step{Name: "produces and consumes with codec " + []string{"none", "gzip", "snappy", "lz4", "zstd"}[name], Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			steps.Must(write(ctx, topic, func(w *kafka.Writer) { w.Compression = codec }, texts(steps.Numbers(200)...)...))
			steps.Equal("values", values(read(ctx, topic, 200, kafka.ReadUncommitted)), steps.Numbers(200))
		}})
	}
	for _, acks := range []kafka.RequiredAcks{kafka.RequireNone, kafka.RequireOne, kafka.RequireAll} {
		plan = append(plan, steps.Step{Name: "produces with acks=" + acks.String(), Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			steps.Must(write(ctx, topic, func(w *kafka.Writer) { w.RequiredAcks = acks }, texts("a", "b")...))
			steps.Equal("values", values(read(ctx, topic, 2, kafka.ReadUncommitted)), []string{"a", "b"})
		}})
	}
	plan = append(plan, []steps.Step{
		{Name: "keeps keys, headers, timestamps and null values", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			at := time.UnixMilli(1_600_000_000_123)
			headers := []kafka.Header{{Key: "trace", Value: []byte("abc")}, {Key: "trace", Value: []byte("def")}, {Key: "empty"}}
			steps.Must(write(ctx, topic, nil,
				kafka.Message{Key: []byte("k"), Value: []byte("v"), Headers: headers, Time: at},
				kafka.Message{Key: []byte("gone"), Time: at},
				kafka.Message{Value: []byte("no key"), Time: at}))
			found := read(ctx, topic, 3, kafka.ReadUncommitted)
			steps.Equal("key", string(found[0].Key), "k")
			steps.True("the timestamp is kept", found[0].Time.Equal(at))
			steps.Equal("headers", len(found[0].Headers), 3)
			steps.Equal("the second header", string(found[0].Headers[1].Value), "def")
			steps.Equal("the null value", len(found[1].Value), 0)
			steps.Equal("the null key", len(found[2].Key), 0)
		}},
		{Name: "writes and reads through a connection of its own", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			connection := steps.Get(dialer.DialLeader(ctx, "tcp", address, topic, 0))
			defer connection.Close()
			steps.Must(connection.SetDeadline(time.Now().Add(20 * time.Second)))
			steps.Get(connection.WriteMessages(texts("a", "b")...))
			steps.Get(connection.WriteCompressedMessages(kafka.Gzip.Codec(), texts("c")...))
			steps.Get(connection.Seek(1, kafka.SeekAbsolute))
			batch := connection.ReadBatch(1, 1<<20)
			steps.Equal("the first value", string(steps.Get(batch.ReadMessage()).Value), "b")
			steps.Equal("the high watermark", batch.HighWaterMark(), int64(3))
			steps.Must(batch.Close())
			first, last, err := connection.ReadOffsets()
			steps.Must(err)
			steps.Equal("offsets", []int64{first, last}, []int64{0, 3})
		}},
		{Name: "writes to many partitions", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 4)
			messages := []kafka.Message{}
			for number := range 1000 {
				messages = append(messages, kafka.Message{Key: []byte(fmt.Sprint(number)), Value: []byte(fmt.Sprint(number))})
			}
			steps.Must(write(ctx, topic, nil, messages...))
			reader := newReader(kafka.ReaderConfig{Topic: topic, GroupID: steps.Unique("group"), StartOffset: kafka.FirstOffset})
			defer reader.Close()
			seen := map[string]bool{}
			for _, message := range take(ctx, reader, 1000) {
				seen[string(message.Value)] = true
			}
			steps.Equal("messages", len(seen), 1000)
		}},
		{Name: "produces a record just below max.message.bytes", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "100000"})
			steps.Must(write(ctx, topic, nil, texts(strings.Repeat("l", 99_900))...))
			steps.Equal("size", len(read(ctx, topic, 1, kafka.ReadUncommitted)[0].Value), 99_900)
		}},
		{Name: "is refused a record above max.message.bytes", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "100000"})
			fails(write(ctx, topic, nil, texts(strings.Repeat("l", 100_001))...), kafka.MessageSizeTooLarge)
		}},
		{Name: "is refused a record without a key on a compacted topic", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, kafka.ConfigEntry{ConfigName: "cleanup.policy", ConfigValue: "compact"})
			steps.True("it is refused", write(ctx, topic, nil, texts("no key")...) != nil)
		}},
		{Name: "reads past the marker of a transaction", Run: func(ctx context.Context) {
			topic, id := newTopic(ctx, 1), steps.Unique("tx")
			session := transaction(ctx, id, topic)
			steps.Must(write(ctx, topic, nil, texts("before")...))
			steps.Must(endTransaction(ctx, id, session, true))
			steps.Until("the marker", func() bool {
				_, last := end(ctx, topic, kafka.ReadUncommitted)
				return last == 2
			})
			steps.Must(write(ctx, topic, nil, texts("after")...))
			steps.Equal("values", values(read(ctx, topic, 2, kafka.ReadCommitted)), []string{"before", "after"})
		}},
		{Name: "commits offsets in a transaction, and none with an aborted one", Run: func(ctx context.Context) {
			topic, group, id := newTopic(ctx, 1), steps.Unique("group"), steps.Unique("tx")
			for _, offset := range []int64{5, 9} {
				session := transaction(ctx, id, topic)
				added := steps.Get(client.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{
					TransactionalID: id, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, GroupID: group,
				}))
				steps.Must(added.Error)
				var sent error
				steps.Until("the offsets", func() bool {
					sent = steps.Get(client.TxnOffsetCommit(ctx, &kafka.TxnOffsetCommitRequest{
						TransactionalID: id, GroupID: group, ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch, GenerationID: -1,
						Topics: map[string][]kafka.TxnOffsetCommit{topic: {{Partition: 0, Offset: offset}}},
					})).Topics[topic][0].Error
					return !busy(sent)
				})
				steps.Must(sent)
				steps.Must(endTransaction(ctx, id, session, offset == 5))
			}
			steps.Until("the committed offset", func() bool { return committed(ctx, group, topic) == 5 })
		}},
		{Name: "is fenced by a newer producer of its transactional id", Run: func(ctx context.Context) {
			topic, id := newTopic(ctx, 1), steps.Unique("tx")
			older := transaction(ctx, id, topic)
			newer := transaction(ctx, id, topic)
			steps.True("the older one cannot commit", endTransaction(ctx, id, older, true) != nil)
			steps.Must(endTransaction(ctx, id, newer, true))
		}},
		{Name: "reads from the latest offset, an offset and a time", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			messages := texts("a", "b", "c")
			for number := range messages {
				messages[number].Time = time.UnixMilli(1_600_000_001_000 + 1000*int64(number))
			}
			steps.Must(write(ctx, topic, nil, messages...))
			reader := newReader(kafka.ReaderConfig{Topic: topic, Partition: 0})
			defer reader.Close()
			steps.Must(reader.SetOffset(2))
			steps.Equal("from an offset", values(take(ctx, reader, 1)), []string{"c"})
			steps.Must(reader.SetOffsetAt(ctx, time.UnixMilli(1_600_000_001_500)))
			steps.Equal("from a time", values(take(ctx, reader, 2)), []string{"b", "c"})
			steps.Must(reader.SetOffset(kafka.LastOffset))
			lag := steps.Get(reader.ReadLag(ctx))
			steps.Equal("the lag", lag, int64(0))
		}},
		{Name: "lists offsets", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			steps.Must(write(ctx, topic, nil, texts("a", "b")...))
			first, last := end(ctx, topic, kafka.ReadCommitted)
			steps.Equal("offsets", []int64{first, last}, []int64{0, 2})
		}},
		{Name: "shares partitions in a group, and takes over from a member that leaves", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 4), steps.Unique("group")
			first := join(group, topic)
			defer first.leave()
			steps.Until("all partitions for one member", func() bool { return len(first.partitions()) == 4 })
			second := join(group, topic)
			steps.Until("two partitions each", func() bool { return len(first.partitions()) == 2 && len(second.partitions()) == 2 })
			all := append(first.partitions(), second.partitions()...)
			slices.Sort(all)
			steps.Equal("the partitions", all, []int{0, 1, 2, 3})
			second.leave()
			steps.Until("all partitions again", func() bool { return len(first.partitions()) == 4 })
		}},
		{Name: "goes on from the committed offset", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 1), steps.Unique("group")
			steps.Must(write(ctx, topic, nil, texts("a", "b", "c", "d")...))
			first := newReader(kafka.ReaderConfig{Topic: topic, GroupID: group, StartOffset: kafka.FirstOffset})
			found := take(ctx, first, 4)
			steps.Must(first.CommitMessages(ctx, found[1]))
			steps.Must(first.Close())
			steps.Equal("committed", committed(ctx, group, topic), int64(2))
			second := newReader(kafka.ReaderConfig{Topic: topic, GroupID: group})
			defer second.Close()
			steps.Equal("values", values(take(ctx, second, 2)), []string{"c", "d"})
		}},
		{Name: "lists, describes and deletes groups", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 2), steps.Unique("group")
			one := join(group, topic)
			steps.Until("the join", func() bool { return len(one.partitions()) == 2 })
			listed := steps.Get(client.ListGroups(ctx, &kafka.ListGroupsRequest{}))
			steps.True("the group is listed", slices.ContainsFunc(listed.Groups, func(each kafka.ListGroupsResponseGroup) bool { return each.GroupID == group }))
			described := steps.Get(client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})).Groups[0]
			steps.Must(described.Error)
			steps.Equal("state", described.GroupState, "Stable")
			steps.Equal("members", len(described.Members), 1)
			steps.Equal("partitions", len(described.Members[0].MemberAssignments.Topics[0].Partitions), 2)
			remove := func() error {
				return steps.Get(client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})).Errors[group]
			}
			fails(remove(), kafka.NonEmptyGroup)
			one.leave()
			steps.Must(remove())
			fails(remove(), kafka.GroupIdNotFound)
		}},
		{Name: "commits and deletes offsets of an empty group", Run: func(ctx context.Context) {
			topic, group := newTopic(ctx, 1), steps.Unique("group")
			sent := steps.Get(client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
				GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 7, Metadata: "m"}}},
			}))
			steps.Must(sent.Topics[topic][0].Error)
			steps.Equal("committed", committed(ctx, group, topic), int64(7))
			gone := steps.Get(client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {0}}}))
			steps.Must(gone.Error)
			steps.Equal("committed", committed(ctx, group, topic), int64(-1))
		}},
		{Name: "describes and alters configs of a topic", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "120000"})
			value := func(name string) string {
				found := steps.Get(client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
					Resources:       []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name}}},
					IncludeSynonyms: true, IncludeDocumentation: true,
				}))
				steps.Must(found.Resources[0].Error)
				return found.Resources[0].ConfigEntries[0].ConfigValue
			}
			steps.Equal("retention.ms", value("retention.ms"), "120000")
			alter := func(changes ...kafka.IncrementalAlterConfigsRequestConfig) error {
				resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: changes}
				found := steps.Get(client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}}))
				return found.Resources[0].Error
			}
			steps.Must(alter(
				kafka.IncrementalAlterConfigsRequestConfig{Name: "segment.bytes", Value: "2097152", ConfigOperation: kafka.ConfigOperationSet},
				kafka.IncrementalAlterConfigsRequestConfig{Name: "retention.ms", ConfigOperation: kafka.ConfigOperationDelete}))
			steps.Until("the new settings", func() bool { return value("segment.bytes") == "2097152" && value("retention.ms") == "604800000" })
			fails(alter(kafka.IncrementalAlterConfigsRequestConfig{Name: "segment.bytes", Value: "many"}), kafka.InvalidConfiguration)
		}},
		{Name: "adds partitions, and is refused fewer", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 2)
			grow := func(count int32) error {
				asked := []kafka.TopicPartitionsConfig{{Name: topic, Count: count}}
				return steps.Get(client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: asked})).Errors[topic]
			}
			steps.Must(grow(5))
			steps.Until("five partitions", func() bool {
				return len(steps.Get(dialer.LookupPartitions(ctx, "tcp", address, topic))) == 5
			})
			fails(grow(3), kafka.InvalidPartitionNumber)
		}},
		{Name: "elects leaders, where none is needed", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			found := steps.Get(client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{Topic: topic, Partitions: []int{0}, Timeout: 5 * time.Second}))
			fails(found.PartitionResults[0].Error, kafka.ElectionNotNeeded)
		}},
		{Name: "deletes topics", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			remove := func() error {
				return steps.Get(client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})).Errors[topic]
			}
			steps.Must(remove())
			fails(remove(), kafka.UnknownTopicOrPartition)
		}},
		steps.WhenSecured("manages ACLs", func(ctx context.Context) {
			topic, user := steps.Unique("acl"), "User:"+steps.Unique("user")
			acl := kafka.ACLEntry{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ResourcePatternType: kafka.PatternTypePrefixed,
				Principal: user, Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
			}
			created := steps.Get(client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{acl}}))
			steps.Equal("errors", created.Errors, []error{nil})
			described := func() int {
				found := steps.Get(client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
					ResourceTypeFilter: acl.ResourceType, ResourceNameFilter: topic, ResourcePatternTypeFilter: acl.ResourcePatternType,
					PrincipalFilter: user, HostFilter: "*", Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
				}}))
				steps.Must(found.Error)
				return len(found.Resources)
			}
			steps.Until("the ACL", func() bool { return described() == 1 })
			deleted := steps.Get(client.DeleteACLs(ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
				ResourceTypeFilter: acl.ResourceType, ResourceNameFilter: topic, ResourcePatternTypeFilter: acl.ResourcePatternType,
				PrincipalFilter: user, HostFilter: "*", Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
			}}}))
			steps.Must(deleted.Results[0].Error)
			steps.Equal("deleted ACLs", len(deleted.Results[0].MatchingACLs), 1)
			steps.Until("its end", func() bool { return described() == 0 })
		}),
		{Name: "manages client quotas", Run: func(ctx context.Context) {
			id := steps.Unique("client")
			alter := func(operation kafka.AlterClientQuotaOps) {
				altered := steps.Get(client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{{
					Entities: []kafka.AlterClientQuotaEntity{{EntityType: "client-id", EntityName: id}},
					Ops:      []kafka.AlterClientQuotaOps{operation},
				}}}))
				steps.Must(altered.Entries[0].Error)
			}
			described := func() []kafka.DescribeClientQuotasResponseQuotas {
				found := steps.Get(client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
					Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "client-id", Match: id}}, Strict: true,
				}))
				steps.Must(found.Error)
				return found.Entries
			}
			alter(kafka.AlterClientQuotaOps{Key: "producer_byte_rate", Value: 1e6})
			steps.Until("the quota", func() bool {
				found := described()
				return len(found) == 1 && found[0].Values[0].Value == 1e6
			})
			alter(kafka.AlterClientQuotaOps{Key: "producer_byte_rate", Remove: true})
			steps.Until("its end", func() bool { return len(described()) == 0 })
		}},
		{Name: "manages SCRAM users", Run: func(ctx context.Context) {
			user := steps.Unique("user")
			made := steps.Get(client.AlterUserScramCredentials(ctx, &kafka.AlterUserScramCredentialsRequest{
				Upsertions: []kafka.UserScramCredentialsUpsertion{{
					Name: user, Mechanism: kafka.ScramMechanismSha512, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: make([]byte, 64),
				}},
			}))
			steps.Must(made.Results[0].Error)
			described := func() kafka.DescribeUserScramCredentialsResponseResult {
				return steps.Get(client.DescribeUserScramCredentials(ctx, &kafka.DescribeUserScramCredentialsRequest{
					Users: []kafka.UserScramCredentialsUser{{Name: user}},
				})).Results[0]
			}
			steps.Until("the user", func() bool {
				found := described()
				return found.Error == nil && found.CredentialInfos[0].Iterations == 4096
			})
			gone := steps.Get(client.AlterUserScramCredentials(ctx, &kafka.AlterUserScramCredentialsRequest{
				Deletions: []kafka.UserScramCredentialsDeletion{{Name: user, Mechanism: kafka.ScramMechanismSha512}},
			}))
			steps.Must(gone.Results[0].Error)
			steps.Until("its end", func() bool { return described().Error != nil })
		}},
		{Name: "goes on after its connections were cut", Run: func(ctx context.Context) {
			topic := newTopic(ctx, 1)
			for _, value := range []string{"before", "after"} {
				steps.Must(write(ctx, topic, nil, texts(value)...))
				wire.Cut()
			}
			steps.Equal("values", values(read(ctx, topic, 2, kafka.ReadUncommitted)), []string{"before", "after"})
		}},
		{Name: "produces idempotently", LeftOut: "kafka-go has no idempotent producer, only the requests of transactions"},
		{Name: "deletes records", LeftOut: "kafka-go has no such call"},
	}...)
	steps.Walk(plan)
}
