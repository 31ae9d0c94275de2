package main

import (
	"fmt"
	"reflect"
	"strings"

	versionedapps "k8s.io/api/apps/v1"
	versionedcore "k8s.io/api/core/v1"
	versionednetworking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
)

// The types that messages show, each with the type of the documents it is read from.
var shown = [][2]any{
	{core.PodSpec{}, versionedcore.PodSpec{}},
	{core.ServicePort{}, versionedcore.ServicePort{}},
	{core.Taint{}, versionedcore.Taint{}},
	{networking.ServiceCIDRSpec{}, versionednetworking.ServiceCIDRSpec{}},
	{apps.DeploymentStrategy{}, versionedapps.DeploymentStrategy{}},
}

func originals() string {
	var table strings.Builder
	known := map[reflect.Type]bool{}
	for _, pair := range shown {
		original(&table, known, reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]))
	}
	return table.String()
}

// Adds a type, and then those in it.
func original(table *strings.Builder, known map[reflect.Type]bool, own, versioned reflect.Type) {
	if known[own] {
		return
	}
	known[own] = true
	fmt.Fprintln(table, own.Name())
	var inner [][2]reflect.Type
	for field := range own.Fields() {
		twin, found := versioned.FieldByName(field.Name)
		if !found {
			panic(versioned.String() + " has no " + field.Name)
		}
		name, _ := inDocument(twin)
		holds := shownAs(field.Type)
		fmt.Fprintln(table, "", field.Name, name, holds)
		if strings.HasSuffix(holds, bare(field.Type).Name()) && bare(field.Type).Kind() == reflect.Struct {
			inner = append(inner, [2]reflect.Type{bare(field.Type), bare(twin.Type)})
		}
	}
	for _, pair := range inner {
		original(table, known, pair[0], pair[1])
	}
}

// How a message shows what a field holds.
func shownAs(held reflect.Type) string {
	switch {
	case held == reflect.TypeFor[resource.Quantity]():
		return "quantity"
	case isOurs(bare(held)):
		prefix := map[reflect.Kind]string{reflect.Pointer: "*", reflect.Slice: "[]"}[held.Kind()]
		return prefix + bare(held).Name()
	}
	if held == reflect.TypeFor[intstr.IntOrString]() {
		return "number"
	}
	switch held.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return "number"
	}
	return "null"
}

// A struct of the API itself, and not of what it is made with.
func isOurs(held reflect.Type) bool {
	return held.Kind() == reflect.Struct && strings.HasPrefix(held.PkgPath(), "k8s.io/kubernetes/")
}

// What a pointer points to or a list has.
func bare(held reflect.Type) reflect.Type {
	if held.Kind() == reflect.Pointer || held.Kind() == reflect.Slice {
		return held.Elem()
	}
	return held
}
