package main

import (
	"context"
	"fmt"
	"sort"

	"google.golang.org/grpc"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// services asks, as grpcurl does, which services there are and which methods the registry has.
func services(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return err
	}
	ask := func(request *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
		if err := stream.Send(request); err != nil {
			return nil, err
		}
		return stream.Recv()
	}
	answer, err := ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{},
	})
	if err != nil {
		return err
	}
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	sort.Strings(names)
	answer, err = ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "api.Registry"},
	})
	if err != nil {
		return err
	}
	methods := map[string]string{}
	for _, bytes := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(bytes, file); err != nil {
			return err
		}
		for _, service := range file.GetService() {
			for _, method := range service.GetMethod() {
				name := service.GetName() + "." + method.GetName()
				methods[name] = fmt.Sprint(method.GetInputType(), " ", method.GetOutputType(), " ", method.GetServerStreaming())
			}
		}
	}
	report("services", names, nil)
	report("methods", methods, nil)
	return stream.CloseSend()
}
