//! What is drawn, as elements of SVG. Whoever draws says where; the canvas knows how far it reaches.

use std::fmt::Write;

/// A place, in pixels from the left and from above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) x: u32,
    pub(super) y: u32,
}

/// How something looks; [`STYLE`] has the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A text above others.
    Heading,
    /// The title of a card.
    Title,
    /// A line of a card.
    Line,
    /// Something less important.
    Faint,
    /// Something that is not as it should be.
    Bad,
    /// The router, the host outside, the cluster.
    Host,
    /// A Windows node.
    Windows,
    /// A Linux node.
    Linux,
    /// A pod.
    Pod,
    /// A pod that is not ready.
    Unready,
    /// A Service.
    Service,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Heading => "heading",
            Self::Title => "title",
            Self::Line => "line",
            Self::Faint => "faint",
            Self::Bad => "bad",
            Self::Host => "host",
            Self::Windows => "windows",
            Self::Linux => "linux",
            Self::Pod => "pod",
            Self::Unready => "unready",
            Self::Service => "service",
        }
    }

    /// How wide a letter is. All letters of the font are equally wide, so that texts can be measured without it.
    fn letter(self) -> f64 {
        match self {
            Self::Heading => 9.7,
            Self::Title => 8.0,
            _ => 7.3,
        }
    }
}

const STYLE: &str = "\
    text { font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 12px; fill: #24292f }
    .heading { font-size: 16px; font-weight: bold }
    .title { font-size: 13px; font-weight: bold }
    .faint { fill: #6e7781 }
    .bad { fill: #b42318 }
    .number { font-size: 11px; font-weight: bold; fill: #ffffff; text-anchor: middle }
    rect { stroke-width: 1 }
    rect.paper { fill: #ffffff }
    rect.host { fill: #f6f8fa; stroke: #8c959f }
    rect.windows { fill: #e7f1fb; stroke: #4a8fd0 }
    rect.linux { fill: #fdf4e0; stroke: #d09a2e }
    rect.pod { fill: #ffffff; stroke: #afb8c1 }
    rect.unready { fill: #ffffff; stroke: #b42318; stroke-dasharray: 4 3 }
    rect.service { fill: #f6f2fb; stroke: #9a7fc7 }
    path { stroke: #57606a; stroke-width: 1.5; fill: none }
";

/// The colours of numbers; after the last the first comes again.
const COLOURS: [&str; 8] = ["#1f6feb", "#8250df", "#1a7f37", "#bc4c00", "#bf3989", "#0b7285", "#5c4b00", "#82071e"];

/// How wide and high the mark with a number is.
pub(super) const BADGE: Point = Point { x: 24, y: 15 };

/// What is drawn so far.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
    reach: Point,
}

impl Canvas {
    /// How far to the right something was drawn.
    pub(super) fn right(&self) -> u32 {
        self.reach.x
    }

    /// A rectangle with its upper left corner here.
    pub(super) fn rect(&mut self, Point { x, y }: Point, width: u32, height: u32, class: Class) {
        let class = class.name();
        self.put(format_args!(r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>"#));
        self.stretch(x + width, y + height);
    }

    /// A text that stands on this point.
    pub(super) fn text(&mut self, Point { x, y }: Point, class: Class, text: &str) {
        let (class_name, escaped) = (class.name(), escape(text));
        self.put(format_args!(r#"<text class="{class_name}" x="{x}" y="{y}">{escaped}</text>"#));
        self.stretch(x + width(class, text), y);
    }

    /// A line, across or down.
    pub(super) fn line(&mut self, from: Point, to: Point) {
        self.put(format_args!(r#"<path d="M {} {} L {} {}"/>"#, from.x, from.y, to.x, to.y));
        self.stretch(from.x.max(to.x), from.y.max(to.y));
    }

    /// The mark of a Service, by its position in the list.
    pub(super) fn badge(&mut self, Point { x, y }: Point, position: usize) {
        let Point { x: width, y: height } = BADGE;
        let colour = COLOURS[position % COLOURS.len()];
        self.put(format_args!(r#"<rect fill="{colour}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>"#));
        let (middle, foot) = (x + width / 2, y + height - 4);
        self.put(format_args!(r#"<text class="number" x="{middle}" y="{foot}">{}</text>"#, position + 1));
        self.stretch(x + width, y + height);
    }

    /// The whole file.
    pub(super) fn finish(self, margin: u32) -> String {
        let (width, height) = (self.reach.x + margin, self.reach.y + margin);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <style>\n{STYLE}</style>\n\
             <rect class=\"paper\" x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a text cannot fail.
        _ = writeln!(self.body, "{element}");
    }

    fn stretch(&mut self, x: u32, y: u32) {
        self.reach = Point { x: self.reach.x.max(x), y: self.reach.y.max(y) };
    }
}

/// How wide a text is at most.
pub(super) fn width(class: Class, text: &str) -> u32 {
    (class.letter() * text.chars().count() as f64).ceil() as u32
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}
