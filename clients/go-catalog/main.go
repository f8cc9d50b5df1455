// Command go-catalog asks a catalog server everything that OLM's own client library can ask, and prints the answers as
// lines of JSON: two servers of the same catalog must give the same lines.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Larger than any bundle of the tests.
const maxMessageBytes = 64 << 20

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go-catalog <host:port>")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		return err
	}
	catalog := client.NewClientFromConn(conn)
	defer catalog.Close()
	healthy, err := catalog.HealthCheck(ctx, 10*time.Second)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	report("health", healthy, nil)
	if err := services(ctx, conn); err != nil {
		return fmt.Errorf("reflection: %w", err)
	}
	bundles, err := list(ctx, catalog)
	if err != nil {
		return fmt.Errorf("bundles: %w", err)
	}
	packages := map[string]bool{}
	for _, bundle := range bundles {
		name, channel := bundle.GetPackageName(), bundle.GetChannelName()
		key := name + " " + channel + " " + bundle.GetCsvName()
		report("listed "+key, bundle, nil)
		whole, err := catalog.GetBundle(ctx, name, channel, bundle.GetCsvName())
		report("bundle "+key, whole, err)
		next, err := catalog.GetReplacementBundleInPackageChannel(ctx, bundle.GetCsvName(), name, channel)
		report("replacement of "+key, next, err)
		if !packages[name] {
			packages[name] = true
			found, err := catalog.GetPackage(ctx, name)
			if err == nil {
				sort.Slice(found.Channels, func(i, j int) bool { return found.Channels[i].Name < found.Channels[j].Name })
			}
			report("package "+name, found, err)
			for _, channel := range found.GetChannels() {
				head, err := catalog.GetBundleInPackageChannel(ctx, name, channel.GetName())
				report("head of "+name+" "+channel.GetName(), head, err)
			}
		}
	}
	provided, err := catalog.GetBundleThatProvides(ctx, "rabbitmq.com", "v1beta1", "RabbitmqCluster")
	report("provider", provided, err)
	for _, absent := range [][3]string{{"nobody", "a", "b"}, {"prometheus", "nowhere", "b"}, {"prometheus", "beta", "no"}} {
		bundle, err := catalog.GetBundle(ctx, absent[0], absent[1], absent[2])
		report(fmt.Sprint("absent ", absent), bundle, err)
		bundle, err = catalog.GetBundleInPackageChannel(ctx, absent[0], absent[1])
		report(fmt.Sprint("absent channel ", absent), bundle, err)
	}
	nobody, err := catalog.GetBundleThatProvides(ctx, "no.such", "v1", "Thing")
	report("no provider", nobody, err)
	return nil
}

// list returns all bundles, sorted: servers have their own order.
func list(ctx context.Context, catalog *client.Client) ([]*api.Bundle, error) {
	stream, err := catalog.ListBundles(ctx)
	if err != nil {
		return nil, err
	}
	var bundles []*api.Bundle
	for bundle := stream.Next(); bundle != nil; bundle = stream.Next() {
		bundles = append(bundles, bundle)
	}
	if err := stream.Error(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	key := func(it *api.Bundle) string { return it.PackageName + " " + it.ChannelName + " " + it.CsvName }
	sort.Slice(bundles, func(i, j int) bool { return key(bundles[i]) < key(bundles[j]) })
	return bundles, nil
}

// report prints an answer, or the code and the words of a refusal.
func report(what string, answer any, err error) {
	line := map[string]any{"asked": what}
	if err != nil {
		line["code"], line["refused"] = status.Code(err).String(), status.Convert(err).Message()
	} else if message, ok := answer.(proto.Message); ok {
		sortBundle(message)
		line["answer"] = message
	} else {
		line["answer"] = answer
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// sortBundle gives lists an order that have none.
func sortBundle(message proto.Message) {
	bundle, ok := message.(*api.Bundle)
	if !ok {
		return
	}
	byText := func(list []*api.GroupVersionKind) {
		sort.Slice(list, func(i, j int) bool { return fmt.Sprint(list[i]) < fmt.Sprint(list[j]) })
	}
	byText(bundle.ProvidedApis)
	byText(bundle.RequiredApis)
}
