// hamba/avro's registry client: what its users do, step by step, with the registry named in the second argument
// and the broker named in the first.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/hamba/avro/v2/registry"

	"ottla/conformance/clients/steps"
)

const (
	order     = `{"name":"walk.Order","type":"record","fields":[{"name":"id","type":"long"}]}`
	withCount = `{"name":"walk.Order","type":"record","fields":[{"name":"id","type":"long"},{"name":"count","type":"int"}]}`
)

var client = steps.Get(registry.NewClient(os.Args[2]))

// fails checks the registry's status and error code.
func fails(err error, status, code int) {
	var refused registry.Error
	if !errors.As(err, &refused) {
		steps.Fail("not refused by the registry: %v", err)
	}
	steps.Equal("status", refused.StatusCode, status)
	steps.Equal("error code", refused.Code, code)
}

func main() {
	steps.Walk([]steps.Step{
		{Name: "registers and finds a schema", Run: func(ctx context.Context) {
			subject := steps.Unique("hamba")
			id, schema := steps.Get2(client.CreateSchema(ctx, subject, order))
			steps.Equal("schema", schema.String(), order)
			steps.Equal("by id", steps.Get(client.GetSchema(ctx, id)).String(), order)
			steps.Equal("latest", steps.Get(client.GetLatestSchema(ctx, subject)).String(), order)
			steps.Equal("versions", steps.Get(client.GetVersions(ctx, subject)), []int{1})
			found, _ := steps.Get2(client.IsRegistered(ctx, subject, order))
			steps.Equal("registered", found, id)
			info := steps.Get(client.GetLatestSchemaInfo(ctx, subject))
			steps.Equal("id and version", []int{info.ID, info.Version}, []int{id, 1})
		}},
		{Name: "reads the levels that it sets", Run: func(ctx context.Context) {
			subject := steps.Unique("hamba")
			steps.Get2(client.CreateSchema(ctx, subject, order))
			before := steps.Get(client.GetGlobalCompatibilityLevel(ctx))
			steps.Equal("global level", before, registry.BackwardCL)
			for _, level := range []string{registry.FullCL, registry.NoneCL, registry.ForwardTransitiveCL} {
				steps.Must(client.SetCompatibilityLevel(ctx, subject, level))
				steps.Equal("level", steps.Get(client.GetCompatibilityLevel(ctx, subject)), level)
			}
		}},
		{Name: "is told what is compatible", Run: func(ctx context.Context) {
			subject := steps.Unique("hamba")
			steps.Get2(client.CreateSchema(ctx, subject, order))
			steps.True("the same", steps.Get(client.IsCompatible(ctx, subject, order)))
			steps.True("not another", !steps.Get(client.IsCompatible(ctx, subject, withCount)))
			_, _, err := client.CreateSchema(ctx, subject, withCount)
			fails(err, 409, 409)
		}},
		{Name: "deletes a subject", Run: func(ctx context.Context) {
			subject := steps.Unique("hamba")
			steps.Get2(client.CreateSchema(ctx, subject, order))
			steps.Equal("deleted", steps.Get(client.DeleteSubject(ctx, subject)), []int{1})
			_, err := client.GetVersions(ctx, subject)
			fails(err, 404, 40401)
		}},
	})
}
