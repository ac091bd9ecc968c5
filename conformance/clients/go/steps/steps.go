// Package steps carries out named steps, each bounded in time, and prints one JSON line a step.
//
// The first line is {"plan": [names]}; then {"name", "ok", "error"} for each step, in the plan's order, or
// {"name", "skipped"} with the reason.
package steps

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	stepTimeout   = 30 * time.Second
	waitTimeout   = 20 * time.Second
	pollInterval  = 20 * time.Millisecond
	longestReason = 400
)

// Step is one thing that users of a client do. A step with LeftOut is not carried out; LeftOut says why.
type Step struct {
	Name    string
	Run     func(ctx context.Context)
	LeftOut string
}

// failure is what ends a step early.
type failure string

// Fail ends the step.
func Fail(format string, arguments ...any) {
	panic(failure(fmt.Sprintf(format, arguments...)))
}

// Must ends the step if there is an error.
func Must(err error) {
	if err != nil {
		Fail("%v", err)
	}
}

// Get gives the value, or ends the step if there is an error.
func Get[V any](value V, err error) V {
	Must(err)
	return value
}

// Get2 gives both values, or ends the step if there is an error.
func Get2[V, W any](first V, second W, err error) (V, W) {
	Must(err)
	return first, second
}

// Equal ends the step unless both are the same.
func Equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		Fail("%s: got %v, not %v", what, got, want)
	}
}

// True ends the step unless it holds.
func True(what string, holds bool) {
	if !holds {
		Fail("not so: %s", what)
	}
}

// Until waits until the condition holds, and ends the step when that takes too long.
func Until(what string, condition func() bool) {
	deadline := time.Now().Add(waitTimeout)
	for !condition() {
		if time.Now().After(deadline) {
			Fail("%s: not within %v", what, waitTimeout)
		}
		time.Sleep(pollInterval)
	}
}

// Unique gives a name that no other run has used.
func Unique(prefix string) string {
	random := make([]byte, 6)
	Get(rand.Read(random))
	return prefix + "-" + hex.EncodeToString(random)
}

// Numbers gives count values, each another, that compress well.
func Numbers(count int) []string {
	found := []string{}
	for number := range count {
		found = append(found, fmt.Sprintf("value %d %s", number, strings.Repeat("x", 100)))
	}
	return found
}

// Login is a user with a password.
type Login struct{ User, Password string }

// Access is the way in, as variables of the environment tell it: TLS is nil in plaintext, Login without one.
func Access() (*tls.Config, *Login) {
	authority := os.Getenv("WALK_CA")
	if authority == "" {
		return nil, nil
	}
	found := &tls.Config{RootCAs: x509.NewCertPool()}
	True("the authority is PEM", found.RootCAs.AppendCertsFromPEM(Get(os.ReadFile(authority))))
	if user := os.Getenv("WALK_USER"); user != "" {
		return found, &Login{user, os.Getenv("WALK_PASSWORD")}
	}
	pair := Get(tls.LoadX509KeyPair(os.Getenv("WALK_CERTIFICATE"), os.Getenv("WALK_KEY")))
	found.Certificates = []tls.Certificate{pair}
	return found, nil
}

// Guest is a user of whom ACLs are asked; the walk's own is asked for nothing.
var Guest = Login{"guest", "guest"}

// WhenSecured is a step for a broker with an authorizer; it is left out in plaintext.
func WhenSecured(name string, run func(ctx context.Context)) Step {
	if config, _ := Access(); config == nil {
		return Step{Name: name, LeftOut: "the broker has no authorizer; the suites by SASL_SSL and mTLS have"}
	}
	return Step{Name: name, Run: run}
}

// WhenLoggedIn is a step for a broker that the walk has logged in to; it is left out otherwise.
func WhenLoggedIn(name string, run func(ctx context.Context)) Step {
	if _, login := Access(); login == nil {
		return Step{Name: name, LeftOut: "it takes a login; the suite by SASL_SSL has one"}
	}
	return Step{Name: name, Run: run}
}

// DialTLS is DialContext with TLS on top, for clients whose dialer has to bring it.
func (d *Dialer) DialTLS(config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		named := config.Clone()
		named.ServerName, _, _ = net.SplitHostPort(address)
		connection := tls.Client(raw, named)
		if err := connection.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return connection, nil
	}
}

// Dialer opens TCP connections and can break all of them, as a network would.
type Dialer struct {
	mutex sync.Mutex
	open  []net.Conn
}

// Dial is a proxy.Dialer's.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is a net.Dialer's.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
	if err == nil {
		d.mutex.Lock()
		d.open = append(d.open, connection)
		d.mutex.Unlock()
	}
	return connection, err
}

// Cut breaks every connection that was opened so far: whoever reads finds its end, whoever writes a broken pipe.
func (d *Dialer) Cut() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, connection := range d.open {
		if each, ok := connection.(*net.TCPConn); ok {
			each.CloseRead()
			each.CloseWrite()
		}
	}
	d.open = nil
}

// Walk carries out the steps in order and ends the process.
func Walk(plan []Step) {
	names := []string{}
	for _, step := range plan {
		names = append(names, step.Name)
	}
	print(map[string]any{"plan": names})
	for _, step := range plan {
		if step.LeftOut != "" {
			print(map[string]any{"name": step.Name, "skipped": step.LeftOut})
			continue
		}
		reason := carryOut(step)
		print(map[string]any{"name": step.Name, "ok": reason == "", "error": reason})
	}
	os.Exit(0)
}

// carryOut gives the reason why a step failed, or nothing. A step that hangs is left behind.
func carryOut(step Step) string {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		defer func() {
			switch found := recover().(type) {
			case nil:
				ended <- ""
			case failure:
				ended <- short(string(found))
			default:
				ended <- short(fmt.Sprintf("panic: %v %s", found, debug.Stack()))
			}
		}()
		step.Run(ctx)
	}()
	select {
	case reason := <-ended:
		return reason
	case <-time.After(stepTimeout + time.Second):
		return fmt.Sprintf("not within %v", stepTimeout)
	}
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "failed without a message"
	}
	return text[:min(len(text), longestReason)]
}

func print(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
