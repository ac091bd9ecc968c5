// franz-go's sr: what its users do, step by step, with the registry named in the second argument and the
// broker named in the first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"

	"ottla/conformance/clients/steps"
)

var (
	address = os.Args[1]
	url     = os.Args[2]
	client  = steps.Get(sr.NewClient(sr.URLs(url), sr.HTTPClient(&http.Client{Timeout: 20 * time.Second})))
)

const (
	avroOrder     = `{"type":"record","name":"Order","namespace":"walk","fields":[{"name":"id","type":"long"}]}`
	avroWithNote  = `{"type":"record","name":"Order","namespace":"walk","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":""}]}`
	avroWithCount = `{"type":"record","name":"Order","namespace":"walk","fields":[{"name":"id","type":"long"},{"name":"count","type":"int"}]}`
	jsonOrder     = `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`
	protoOrder    = "syntax = \"proto3\";\npackage walk;\n\nmessage Order {\n  int64 id = 1;\n}\n"
)

type order struct {
	ID int64 `json:"id"`
}

func create(ctx context.Context, subject string, schema sr.Schema) sr.SubjectSchema {
	return steps.Get(client.CreateSchema(ctx, subject, schema))
}

// fails checks the registry's status and error code.
func fails(err error, status, code int) {
	var refused *sr.ResponseError
	if !errors.As(err, &refused) {
		steps.Fail("not refused by the registry: %v", err)
	}
	steps.Equal("status", refused.StatusCode, status)
	steps.Equal("error code", refused.ErrorCode, code)
	steps.True("the error has a message", refused.Message != "")
}

func only[V any](found []V) V {
	steps.Equal("results", len(found), 1)
	return found[0]
}

func main() {
	steps.Walk([]steps.Step{
		{Name: "is told the formats", Run: func(ctx context.Context) {
			found := steps.Get(client.SupportedTypes(ctx))
			steps.Equal("types", found, []sr.SchemaType{sr.TypeAvro, sr.TypeProtobuf, sr.TypeJSON})
		}},
		{Name: "registers each format, and again", Run: func(ctx context.Context) {
			for kind, text := range map[sr.SchemaType]string{
				sr.TypeAvro: avroOrder, sr.TypeJSON: jsonOrder, sr.TypeProtobuf: protoOrder,
			} {
				subject := steps.Unique("walk")
				first := create(ctx, subject, sr.Schema{Schema: text, Type: kind})
				steps.Equal("subject and version", []any{first.Subject, first.Version, first.Type}, []any{subject, 1, kind})
				steps.Equal("again", create(ctx, subject, sr.Schema{Schema: text, Type: kind}), first)
				steps.Equal("looked up", steps.Get(client.LookupSchema(ctx, subject, sr.Schema{Schema: text, Type: kind})), first)
				other := create(ctx, steps.Unique("walk"), sr.Schema{Schema: text, Type: kind})
				steps.Equal("id in another subject", other.ID, first.ID)
			}
		}},
		{Name: "finds schemas by id", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			text := strings.ReplaceAll(avroOrder, "Order", strings.ReplaceAll(subject, "-", "_"))
			made := create(ctx, subject, sr.Schema{Schema: text})
			steps.Equal("schema", steps.Get(client.SchemaByID(ctx, made.ID)).Schema, text)
			steps.Equal("text", steps.Get(client.SchemaTextByID(ctx, made.ID)), text)
			steps.Equal("subjects", steps.Get(client.SubjectsByID(ctx, made.ID)), []string{subject})
			steps.Equal("versions", steps.Get(client.SchemaVersionsByID(ctx, made.ID)), []sr.SubjectVersion{{Subject: subject, Version: 1}})
			steps.Equal("usages", steps.Get(client.SchemaUsagesByID(ctx, made.ID)), []sr.SubjectSchema{made})
			_, err := client.SchemaByID(ctx, 1<<30)
			fails(err, 404, 40403)
		}},
		{Name: "finds schemas by guid", Run: func(ctx context.Context) {
			made := create(ctx, steps.Unique("walk"), sr.Schema{Schema: avroOrder})
			steps.Equal("schema", steps.Get(client.SchemaByGUID(ctx, made.GUID)).Schema.Schema, avroOrder)
			steps.Equal("ids", steps.Get(client.SchemaIDsByGUID(ctx, made.GUID)), []sr.ContextID{{Context: ".", ID: made.ID}})
		}},
		{Name: "finds versions", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			first := create(ctx, subject, sr.Schema{Schema: avroOrder})
			second := create(ctx, subject, sr.Schema{Schema: avroWithNote})
			steps.Equal("versions", steps.Get(client.SubjectVersions(ctx, subject)), []int{1, 2})
			steps.Equal("first", steps.Get(client.SchemaByVersion(ctx, subject, 1)), first)
			steps.Equal("latest", steps.Get(client.SchemaByVersion(ctx, subject, -1)), second)
			steps.Equal("text", steps.Get(client.SchemaTextByVersion(ctx, subject, 2)), avroWithNote)
			steps.Equal("all", steps.Get(client.Schemas(ctx, subject)), []sr.SubjectSchema{first, second})
			_, err := client.SchemaByVersion(ctx, subject, 7)
			fails(err, 404, 40402)
			_, err = client.SchemaByVersion(ctx, subject, 0)
			fails(err, 422, 42202)
		}},
		{Name: "lists subjects and schemas", Run: func(ctx context.Context) {
			prefix := steps.Unique("walk")
			create(ctx, prefix+"-a", sr.Schema{Schema: avroOrder})
			create(ctx, prefix+"-a", sr.Schema{Schema: avroWithNote})
			create(ctx, prefix+"-b", sr.Schema{Schema: jsonOrder, Type: sr.TypeJSON})
			named := sr.WithParams(ctx, sr.SubjectPrefix(prefix))
			steps.Equal("subjects", steps.Get(client.Subjects(named)), []string{prefix + "-a", prefix + "-b"})
			steps.Equal("schemas", len(steps.Get(client.AllSchemas(named))), 3)
			latest := steps.Get(client.AllSchemas(sr.WithParams(ctx, sr.SubjectPrefix(prefix), sr.LatestOnly)))
			steps.Equal("latest", []int{latest[0].Version, latest[1].Version}, []int{2, 1})
			page := steps.Get(client.AllSchemas(sr.WithParams(ctx, sr.SubjectPrefix(prefix), sr.Offset(1), sr.Limit(1))))
			steps.Equal("page", only(page).Version, 2)
		}},
		{Name: "keeps metadata and rules", Run: func(ctx context.Context) {
			schema := sr.Schema{
				Schema: avroOrder,
				SchemaMetadata: &sr.SchemaMetadata{
					Tags:       map[string][]string{"walk.Order.id": {"PII"}},
					Properties: map[string]string{"owner": "walk"},
					Sensitive:  []string{"owner"},
				},
				SchemaRuleSet: &sr.SchemaRuleSet{DomainRules: []sr.SchemaRule{{
					Name: "positive", Kind: sr.SchemaRuleKindCondition, Mode: sr.SchemaRuleModeWrite, Type: "CEL",
					Tags: []string{"PII"}, Params: map[string]string{"a": "b"}, Expr: "message.id > 0", OnFailure: "ERROR",
				}}},
			}
			made := create(ctx, steps.Unique("walk"), schema)
			steps.Equal("schema", steps.Get(client.SchemaByID(ctx, made.ID)), schema)
			plain := create(ctx, steps.Unique("walk"), sr.Schema{Schema: avroOrder})
			steps.True("rules make another id", plain.ID != made.ID)
		}},
		{Name: "refers to other schemas", Run: func(ctx context.Context) {
			base := create(ctx, steps.Unique("walk"), sr.Schema{Schema: avroOrder})
			basket := sr.Schema{
				Schema:     `{"type":"record","name":"Basket","namespace":"walk","fields":[{"name":"order","type":"Order"}]}`,
				References: []sr.SchemaReference{{Name: "walk.Order", Subject: base.Subject, Version: 1}},
			}
			made := create(ctx, steps.Unique("walk"), basket)
			steps.Equal("schema", steps.Get(client.SchemaByID(ctx, made.ID)), basket)
			steps.Equal("referrers", steps.Get(client.SchemaReferences(ctx, base.Subject, 1)), []sr.SubjectSchema{made})
			fails(client.DeleteSchema(ctx, base.Subject, 1, sr.SoftDelete), 422, 42206)
		}},
		{Name: "is refused what is no schema", Run: func(ctx context.Context) {
			for kind, text := range map[sr.SchemaType]string{sr.TypeAvro: `{"type":"nothing"}`, sr.TypeJSON: `{"type":7}`, sr.TypeProtobuf: "message {"} {
				_, err := client.RegisterSchema(ctx, steps.Unique("walk"), sr.Schema{Schema: text, Type: kind}, -1, -1)
				fails(err, 422, 42201)
			}
		}},
		{Name: "is refused an incompatible schema", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			create(ctx, subject, sr.Schema{Schema: avroOrder})
			_, err := client.RegisterSchema(ctx, subject, sr.Schema{Schema: avroWithCount}, -1, -1)
			var refused *sr.ResponseError
			steps.True("a refusal", errors.As(err, &refused))
			steps.Equal("status", refused.StatusCode, 409)
		}},
		{Name: "checks compatibility", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			create(ctx, subject, sr.Schema{Schema: avroOrder})
			verbose := sr.WithParams(ctx, sr.Verbose)
			for _, version := range []int{1, -1, -2} {
				yes := steps.Get(client.CheckCompatibility(verbose, subject, version, sr.Schema{Schema: avroWithNote}))
				steps.Equal("compatible", []any{yes.Is, len(yes.Messages)}, []any{true, 0})
				no := steps.Get(client.CheckCompatibility(verbose, subject, version, sr.Schema{Schema: avroWithCount}))
				steps.True("incompatible, with a reason", !no.Is && strings.Contains(strings.Join(no.Messages, " "), "READER_FIELD_MISSING_DEFAULT_VALUE"))
			}
			_, err := client.CheckCompatibility(ctx, subject, 9, sr.Schema{Schema: avroWithNote})
			fails(err, 404, 40402)
		}},
		{Name: "sets and resets the compatibility of a subject", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			create(ctx, subject, sr.Schema{Schema: avroOrder})
			fails(only(client.Compatibility(ctx, subject)).Err, 404, 40408)
			byDefault := only(client.Compatibility(sr.WithParams(ctx, sr.DefaultToGlobal), subject))
			steps.Equal("by default", []any{byDefault.Level, byDefault.Err}, []any{sr.CompatBackward, nil})
			for _, level := range []sr.CompatibilityLevel{
				sr.CompatNone, sr.CompatBackward, sr.CompatBackwardTransitive, sr.CompatForward,
				sr.CompatForwardTransitive, sr.CompatFull, sr.CompatFullTransitive,
			} {
				set := only(client.SetCompatibility(ctx, sr.SetCompatibility{Level: level}, subject))
				steps.Equal("set", []any{set.Level, set.Err}, []any{level, nil})
				got := only(client.Compatibility(ctx, subject))
				steps.Equal("got", []any{got.Level, got.Err}, []any{level, nil})
			}
			steps.Must(only(client.ResetCompatibility(ctx, subject)).Err)
			fails(only(client.Compatibility(ctx, subject)).Err, 404, 40408)
		}},
		{Name: "is told the global compatibility", Run: func(ctx context.Context) {
			found := only(client.Compatibility(ctx))
			steps.Equal("level", []any{found.Level, found.Err}, []any{sr.CompatBackward, nil})
		}},
		{Name: "sets and resets the mode of a subject", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			create(ctx, subject, sr.Schema{Schema: avroOrder})
			fails(only(client.Mode(ctx, subject)).Err, 404, 40409)
			steps.Equal("global", only(client.Mode(ctx)), sr.ModeResult{Mode: sr.ModeReadWrite})
			steps.Must(only(client.SetMode(ctx, sr.ModeReadOnly, subject)).Err)
			steps.Equal("mode", only(client.Mode(ctx, subject)), sr.ModeResult{Subject: subject, Mode: sr.ModeReadOnly})
			_, err := client.RegisterSchema(ctx, subject, sr.Schema{Schema: avroWithNote}, -1, -1)
			fails(err, 422, 42205)
			steps.Must(only(client.ResetMode(ctx, subject)).Err)
			steps.Equal("version", create(ctx, subject, sr.Schema{Schema: avroWithNote}).Version, 2)
		}},
		{Name: "imports schemas with their ids", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			name := strings.ReplaceAll(subject, "-", "_")
			steps.Must(only(client.SetMode(ctx, sr.ModeImport, subject)).Err)
			id := 500_000 + int(time.Now().UnixNano()%1_000_000)
			schema := sr.Schema{Schema: strings.ReplaceAll(avroOrder, "Order", name)}
			steps.Equal("id", steps.Get(client.RegisterSchema(ctx, subject, schema, id, 5)), id)
			steps.Equal("versions", steps.Get(client.SubjectVersions(ctx, subject)), []int{5})
			steps.Must(only(client.ResetMode(ctx, subject)).Err)
		}},
		{Name: "deletes versions, softly and for good", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			create(ctx, subject, sr.Schema{Schema: avroOrder})
			create(ctx, subject, sr.Schema{Schema: avroWithNote})
			fails(client.DeleteSchema(ctx, subject, 1, sr.HardDelete), 404, 40407)
			steps.Must(client.DeleteSchema(ctx, subject, 1, sr.SoftDelete))
			fails(client.DeleteSchema(ctx, subject, 1, sr.SoftDelete), 404, 40406)
			steps.Equal("live", steps.Get(client.SubjectVersions(ctx, subject)), []int{2})
			steps.Equal("all", steps.Get(client.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), subject)), []int{1, 2})
			steps.Equal("deleted", steps.Get(client.SubjectVersions(sr.WithParams(ctx, sr.DeletedOnly), subject)), []int{1})
			steps.Must(client.DeleteSchema(ctx, subject, 1, sr.HardDelete))
			steps.Equal("all", steps.Get(client.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), subject)), []int{2})
		}},
		{Name: "deletes subjects, softly and for good", Run: func(ctx context.Context) {
			subject := steps.Unique("walk")
			create(ctx, subject, sr.Schema{Schema: avroOrder})
			create(ctx, subject, sr.Schema{Schema: avroWithNote})
			_, err := client.DeleteSubject(ctx, subject, sr.HardDelete)
			fails(err, 404, 40405)
			steps.Equal("deleted", steps.Get(client.DeleteSubject(ctx, subject, sr.SoftDelete)), []int{1, 2})
			_, err = client.DeleteSubject(ctx, subject, sr.SoftDelete)
			fails(err, 404, 40404)
			_, err = client.SubjectVersions(ctx, subject)
			fails(err, 404, 40401)
			steps.Equal("for good", steps.Get(client.DeleteSubject(ctx, subject, sr.HardDelete)), []int{1, 2})
			_, err = client.DeleteSubject(ctx, subject, sr.SoftDelete)
			fails(err, 404, 40401)
		}},
		{Name: "names subjects as it likes", Run: func(ctx context.Context) {
			for _, odd := range []string{"a/b", "a b", "ä%2F+?&#", "日本"} {
				subject := steps.Unique(odd)
				create(ctx, subject, sr.Schema{Schema: avroOrder})
				steps.Equal("versions", steps.Get(client.SubjectVersions(ctx, subject)), []int{1})
			}
		}},
		{Name: "works in a context", Run: func(ctx context.Context) {
			name := "." + steps.Unique("walk")
			inside := sr.InContext(ctx, name)
			made := create(inside, "orders", sr.Schema{Schema: avroOrder})
			steps.Equal("subject and id", []any{made.Subject, made.ID}, []any{":" + name + ":orders", 1})
			steps.Equal("subjects", steps.Get(client.Subjects(inside)), []string{made.Subject})
			steps.Equal("versions", steps.Get(client.SubjectVersions(ctx, made.Subject)), []int{1})
			steps.Equal("contexts", steps.Get(client.Contexts(sr.WithParams(ctx, sr.ContextPrefix(name)))), []string{name})
			fails(client.DeleteContext(ctx, name), 422, 42211)
			for _, how := range []sr.DeleteHow{sr.SoftDelete, sr.HardDelete} {
				steps.Get(client.DeleteSubject(inside, "orders", how))
			}
			steps.Must(client.DeleteContext(ctx, name))
			steps.Equal("contexts", len(steps.Get(client.Contexts(sr.WithParams(ctx, sr.ContextPrefix(name))))), 0)
		}},
		{Name: "encodes and decodes by a Serde, through the broker", Run: func(ctx context.Context) {
			topic := steps.Unique("walk")
			made := create(ctx, topic+"-value", sr.Schema{Schema: jsonOrder, Type: sr.TypeJSON})
			var serde sr.Serde
			serde.Register(made.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal), sr.GenerateFn(func() any { return new(order) }))
			broker := steps.Get(kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(200*time.Millisecond)))
			defer broker.Close()
			steps.Get(kadm.NewClient(broker).CreateTopic(ctx, 1, 1, nil, topic))
			for id := range int64(3) {
				record := &kgo.Record{Topic: topic, Value: serde.MustEncode(order{id})}
				steps.Must(broker.ProduceSync(ctx, record).FirstErr())
			}
			found := []int64{}
			for len(found) < 3 {
				fetches := broker.PollFetches(ctx)
				steps.Must(fetches.Err())
				for _, record := range fetches.Records() {
					id, _ := steps.Get2(serde.DecodeID(record.Value))
					steps.Equal("type", steps.Get(client.SchemaByID(ctx, id)).Type, sr.TypeJSON)
					found = append(found, steps.Get(serde.DecodeNew(record.Value)).(*order).ID)
				}
			}
			steps.Equal("orders", fmt.Sprint(found), "[0 1 2]")
		}},
		{Name: "frames Protobuf with the message's index", Run: func(ctx context.Context) {
			made := create(ctx, steps.Unique("walk"), sr.Schema{Schema: protoOrder, Type: sr.TypeProtobuf})
			var serde sr.Serde
			encode := func(value any) ([]byte, error) { return []byte{8, byte(value.(order).ID)}, nil }
			serde.Register(made.ID, order{}, sr.EncodeFn(encode), sr.Index(0))
			frame := serde.MustEncode(order{7})
			id, rest := steps.Get2(serde.DecodeID(frame))
			index, data := steps.Get2(serde.DecodeIndex(rest, 4))
			steps.Equal("frame", []any{id, index, data}, []any{made.ID, []int{0}, []byte{8, 7}})
		}},
	})
}
