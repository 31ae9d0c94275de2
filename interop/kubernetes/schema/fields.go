package main

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What the table begins with, in its order. Whatever they hold follows, the nearest first.
var kinds = []any{
	core.Namespace{}, core.Node{}, core.Pod{}, core.Service{}, core.Endpoints{}, core.ConfigMap{}, core.Secret{}, core.ServiceAccount{},
	core.Event{}, core.Binding{}, apps.Deployment{}, apps.ReplicaSet{}, discovery.EndpointSlice{}, coordination.Lease{},
	networking.NetworkPolicy{}, networking.ServiceCIDR{}, networking.IPAddress{}, events.Event{}, autoscaling.Scale{}, policy.Eviction{},
	authentication.TokenRequest{}, authentication.TokenRequestSpec{}, authentication.BoundObjectReference{},
	authentication.TokenRequestStatus{}, authorization.SelfSubjectAccessReview{}, authorization.SelfSubjectAccessReviewSpec{},
	authorization.ResourceAttributes{}, authorization.NonResourceAttributes{}, authorization.SubjectAccessReviewStatus{},
	authorization.FieldSelectorAttributes{}, authorization.LabelSelectorAttributes{}, meta.FieldSelectorRequirement{},
	meta.DeleteOptions{},
}

// Structs with a form of their own in JSON.
var plain = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():            "time",
	reflect.TypeFor[meta.MicroTime]():       "microtime",
	reflect.TypeFor[meta.Duration]():        "meta.Duration",
	reflect.TypeFor[meta.FieldsV1]():        "fields",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intorstring",
}

func fields() string {
	var table strings.Builder
	var queue []reflect.Type
	known := map[reflect.Type]bool{}
	add := func(message reflect.Type) {
		if !known[message] {
			known[message] = true
			queue = append(queue, message)
		}
	}
	for _, kind := range kinds {
		add(reflect.TypeOf(kind))
	}
	for len(queue) > 0 {
		message := queue[0]
		queue = queue[1:]
		fmt.Fprintln(&table, messageName(message))
		for field := range message.Fields() {
			// What has no number is not in protobuf: kind and apiVersion, which are around the message there.
			number := strings.Split(field.Tag.Get("protobuf"), ",")
			if len(number) < 2 {
				continue
			}
			name, presence := inDocument(field)
			holds, inner := describe(field.Type)
			fmt.Fprintln(&table, "", number[1], name, holds, presence)
			if inner != nil {
				add(inner)
			}
		}
	}
	return table.String()
}

// The name of a field in documents, and when it is there.
func inDocument(field reflect.StructField) (string, string) {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case field.Anonymous && name == "":
		return "-", "inline"
	case field.Type.Kind() == reflect.Pointer:
		return name, "pointer"
	case strings.Contains(options, "omitempty"):
		return name, "maybe"
	}
	return name, "always"
}

// What a type is called in the table, and the message in it.
func describe(held reflect.Type) (string, reflect.Type) {
	if name, known := plain[held]; known {
		return name, nil
	}
	switch held.Kind() {
	case reflect.Pointer:
		return describe(held.Elem())
	case reflect.Slice:
		if held.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		name, message := describe(held.Elem())
		return "[]" + name, message
	case reflect.Map:
		name, message := describe(held.Elem())
		return "{}" + name, message
	case reflect.Struct:
		return messageName(held), held
	case reflect.String, reflect.Bool:
		return held.Kind().String(), nil
	case reflect.Int32, reflect.Int64:
		return "int", nil
	}
	panic("no word for " + held.String())
}

// A message is named after its group: core.Pod, meta.ObjectMeta.
func messageName(message reflect.Type) string {
	return path.Base(path.Dir(message.PkgPath())) + "." + message.Name()
}
