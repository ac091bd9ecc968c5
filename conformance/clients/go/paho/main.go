// A device with eclipse/paho.golang: connects with MQTT 5, publishes, subscribes, and tells what came of it.
//
// Usage: paho HOST:PORT TOPIC COUNT. One line of JSON: messages acknowledged, the code of a message that no
// route takes, and what it was sent of what it retained.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

type told struct {
	Acknowledged int    `json:"acknowledged"`
	Refused      int    `json:"refused"`
	Retained     string `json:"retained"`
	IsRetained   bool   `json:"is_retained"`
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, topic, countText string) error {
	count, err := strconv.Atoi(countText)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	arrived := make(chan *paho.Publish, 10)
	client := paho.NewClient(paho.ClientConfig{
		Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(received paho.PublishReceived) (bool, error) {
				arrived <- received.Packet
				return true, nil
			},
		},
	})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: "gopher", CleanStart: true, KeepAlive: 30}); err != nil {
		return err
	}
	found := told{}
	for number := 0; number < count; number++ {
		message := &paho.Publish{
			Topic: topic, QoS: 1, Retain: true, Payload: []byte(fmt.Sprintf("go %d", number)),
		}
		if _, err := client.Publish(ctx, message); err != nil {
			return err
		}
		found.Acknowledged++
	}
	response, err := client.Publish(ctx, &paho.Publish{Topic: "no/route", QoS: 1, Payload: []byte("x")})
	if response == nil {
		return err
	}
	found.Refused = int(response.ReasonCode)
	subscription := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}}
	if _, err := client.Subscribe(ctx, subscription); err != nil {
		return err
	}
	select {
	case message := <-arrived:
		found.Retained, found.IsRetained = string(message.Payload), message.Retain
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := client.Disconnect(&paho.Disconnect{ReasonCode: 0}); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
