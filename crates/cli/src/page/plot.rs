//! Plots as SVG: a line and points over a time. A library would draw more, but does not keep the labels of a logarithmic time
//! apart.

use super::escaped;
use std::fmt::Write as _;

/// Width and height of a plot, in units that the page scales to its width.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;

/// The area within the axes.
const LEFT: f64 = 100.0;
const RIGHT: f64 = WIDTH - 44.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 56.0;

/// Size of texts, so that they can be read where the plot is half as wide.
const TEXT: f64 = 17.0;

/// Width of a letter, as a part of the size of the text: more than that of most.
const LETTER: f64 = 0.6;

/// Times that are good to read, in seconds.
const TIMES: [f64; 16] = [
    1e-3,
    1e-2,
    0.1,
    1.0,
    10.0,
    60.0,
    600.0,
    3600.0,
    6.0 * 3600.0,
    86_400.0,
    7.0 * 86_400.0,
    30.0 * 86_400.0,
    100.0 * 86_400.0,
    365.25 * 86_400.0,
    3652.5 * 86_400.0,
    36_525.0 * 86_400.0,
];

/// Most labels of an axis.
const LABELS_MAX: usize = 6;

/// A point of a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// How the horizontal axis grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// What is plotted.
pub(super) struct Plot<'a> {
    pub(super) scale: Scale,
    pub(super) x: Axis<'a>,
    pub(super) y: Axis<'a>,
    pub(super) line: &'a [Point],
    pub(super) points: &'a [Point],
}

/// An axis: what it shows, and how its numbers are written.
pub(super) struct Axis<'a> {
    pub(super) label: &'a str,
    pub(super) format: fn(f64) -> String,
}

/// Where numbers lie in the picture.
#[derive(Debug, Clone, Copy)]
struct Frame {
    scale: Scale,
    /// The least and the largest time, or their logarithms.
    from: f64,
    to: f64,
    highest: f64,
}

impl Plot<'_> {
    /// Draws the plot; `None` if there is nothing to draw.
    pub(super) fn draw(&self) -> Option<String> {
        let frame = self.frame()?;
        let label = escaped(&format!("{} over {}", self.y.label, self.x.label));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{label}\" font-family=\"system-ui,sans-serif\" font-size=\"{TEXT}\" fill=\"#444\">\n"
        );
        for text in self.texts(&frame) {
            let Text { content, x, y, anchor } = text;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\">{}</text>",
                anchor.name(),
                escaped(&content)
            );
        }
        let mut grid = |x1: f64, y1: f64, x2: f64, y2: f64| {
            let _ = writeln!(svg, "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#ddd\"/>");
        };
        self.times(&frame).iter().for_each(|at| grid(frame.x(*at), TOP, frame.x(*at), BOTTOM));
        heights(frame.highest).iter().for_each(|at| grid(LEFT, frame.y(*at), RIGHT, frame.y(*at)));
        let line: Vec<String> =
            frame.within(self.line).map(|at| format!("{:.1},{:.1}", frame.x(at.x), frame.y(at.y))).collect();
        if line.len() > 1 {
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"#05a\" stroke-width=\"2.5\"/>",
                line.join(" ")
            );
        }
        for at in frame.within(self.points) {
            let (x, y) = (frame.x(at.x), frame.y(at.y));
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#c50\" fill-opacity=\".7\"/>");
        }
        Some(svg + "</svg>")
    }

    /// Returns where numbers lie; `None` if there are none.
    fn frame(&self) -> Option<Frame> {
        let scaled = |x: f64| if self.scale == Scale::Logarithmic { x.ln() } else { x };
        let all = || self.line.iter().chain(self.points).map(|point| Point { x: scaled(point.x), y: point.y });
        let usable = || all().filter(|point| point.x.is_finite() && point.y.is_finite());
        let (from, to) =
            usable().fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), point| (from.min(point.x), to.max(point.x)));
        let highest = usable().map(|point| point.y).fold(0.0, f64::max);
        // A single time has room on both sides.
        let (from, to) = if to - from > 1e-9 { (from, to) } else { (from - 1.0, to + 1.0) };
        let highest = if highest > 0.0 { highest * 1.05 } else { 1.0 };
        from.is_finite().then_some(Frame { scale: self.scale, from, to, highest })
    }

    /// Returns the times that have labels: as many as there is room for.
    fn times(&self, frame: &Frame) -> Vec<f64> {
        let candidates: Vec<f64> = match frame.scale {
            Scale::Logarithmic => TIMES.to_vec(),
            Scale::Linear => steps_of_time(frame.from, frame.to),
        };
        let mut chosen: Vec<f64> = Vec::new();
        let mut free_from = f64::NEG_INFINITY;
        for at in candidates {
            let (x, half) = (frame.x(at), width_of(&(self.x.format)(at)) / 2.0);
            if (LEFT..=RIGHT).contains(&x) && x - half > free_from && x + half < WIDTH {
                chosen.push(at);
                free_from = x + half + TEXT;
            }
        }
        chosen
    }

    fn texts(&self, frame: &Frame) -> Vec<Text> {
        let mut texts = vec![
            Text { content: self.y.label.to_owned(), x: LEFT, y: TOP - TEXT * 0.8, anchor: Anchor::Start },
            Text { content: self.x.label.to_owned(), x: RIGHT, y: HEIGHT - TEXT * 0.5, anchor: Anchor::End },
        ];
        texts.extend(self.times(frame).into_iter().map(|at| Text {
            content: (self.x.format)(at),
            x: frame.x(at),
            y: BOTTOM + TEXT * 1.6,
            anchor: Anchor::Middle,
        }));
        texts.extend(heights(frame.highest).into_iter().map(|at| Text {
            content: (self.y.format)(at),
            x: LEFT - TEXT * 0.5,
            y: frame.y(at) + TEXT * 0.35,
            anchor: Anchor::End,
        }));
        texts
    }
}

impl Frame {
    fn x(&self, x: f64) -> f64 {
        let scaled = if self.scale == Scale::Logarithmic { x.ln() } else { x };
        LEFT + (scaled - self.from) / (self.to - self.from) * (RIGHT - LEFT)
    }

    fn y(&self, y: f64) -> f64 {
        BOTTOM - y / self.highest * (BOTTOM - TOP)
    }

    /// Returns the points that can be drawn.
    fn within<'a>(&'a self, points: &'a [Point]) -> impl Iterator<Item = &'a Point> {
        points.iter().filter(|point| self.x(point.x).is_finite() && self.y(point.y).is_finite())
    }
}

/// A text in the picture.
struct Text {
    content: String,
    x: f64,
    y: f64,
    anchor: Anchor,
}

/// Which part of a text lies at its place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * TEXT * LETTER
}

/// Returns heights from zero on that are good to read.
fn heights(highest: f64) -> Vec<f64> {
    let rough = highest / 4.0;
    let unit = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * unit).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    (0..LABELS_MAX as u32).map(|at| f64::from(at) * step).take_while(|height| *height <= highest).collect()
}

/// Returns times between two that are good to read.
fn steps_of_time(from: f64, to: f64) -> Vec<f64> {
    const STEPS: [f64; 22] = [
        0.01,
        0.1,
        1.0,
        2.0,
        5.0,
        10.0,
        20.0,
        30.0,
        60.0,
        120.0,
        300.0,
        600.0,
        1200.0,
        1800.0,
        3600.0,
        7200.0,
        21_600.0,
        43_200.0,
        86_400.0,
        172_800.0,
        604_800.0,
        2_592_000.0,
    ];
    let rough = (to - from) / LABELS_MAX as f64;
    let step = STEPS.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (from / step).ceil() * step;
    (0..=LABELS_MAX as u32).map(|at| first + f64::from(at) * step).take_while(|time| *time <= to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{percent, size, time};

    fn plot<'a>(scale: Scale, line: &'a [Point], points: &'a [Point]) -> Plot<'a> {
        let x = Axis { label: "time between checkpoints", format: time };
        Plot { scale, x, y: Axis { label: "longer by", format: percent }, line, points }
    }

    fn points(all: &[(f64, f64)]) -> Vec<Point> {
        all.iter().map(|(x, y)| Point { x: *x, y: *y }).collect()
    }

    #[test]
    fn a_plot_has_its_points_and_nothing_that_is_no_number() {
        let all = points(&[(1.0, 0.5), (60.0, 0.1), (f64::NAN, 1.0), (3600.0, 0.9), (5.0, f64::INFINITY)]);
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = plot(scale, &all, &all).draw().expect("three points");
            assert_eq!(svg.matches("<circle").count(), 3);
            assert!(svg.contains("<polyline") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        assert_eq!(plot(Scale::Linear, &[], &[]).draw(), None);
        assert_eq!(plot(Scale::Linear, &points(&[(f64::NAN, 1.0)]), &[]).draw(), None);
        assert!(plot(Scale::Linear, &[], &points(&[(5.0, 0.0)])).draw().is_some(), "one point");
        let zero = points(&[(0.0, 1.0), (10.0, 2.0)]);
        let svg = plot(Scale::Logarithmic, &[], &zero).draw().expect("zero has no logarithm, but ten has");
        assert_eq!(svg.matches("<circle").count(), 1);
    }

    #[test]
    fn numbers_at_the_axes_are_good_to_read() {
        assert_eq!(heights(0.9), [0.0, 0.5]);
        assert_eq!(heights(10.0), [0.0, 5.0, 10.0]);
        assert_eq!(heights(1e9).len(), 3);
        assert_eq!(steps_of_time(0.0, 3600.0), [0.0, 600.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0]);
        assert_eq!(steps_of_time(100.0, 200.0), [100.0, 120.0, 140.0, 160.0, 180.0, 200.0]);
    }

    /// Texts do not run into each other, lie within the picture and are there, whatever is plotted.
    #[test]
    fn labels_do_not_overlap() {
        for shift in 0..80 {
            let least = 1e-3 * 1.5_f64.powi(shift % 40);
            for factor in [1.0001, 1.3, 4.0, 50.0, 1e4, 1e7] {
                for highest in [1e-6, 0.013, 0.9, 7.0, 4e4, 3e12] {
                    let line = points(&[(least, 0.0), (least * factor, highest)]);
                    for scale in [Scale::Linear, Scale::Logarithmic] {
                        // As they occur: pauses up to days, shares of a few hundred percent, sizes.
                        let format: fn(f64) -> String = match highest {
                            share if share < 10.0 && shift % 2 == 0 => percent,
                            seconds if seconds < 1e6 => time,
                            _ => |bytes| size(bytes as u64),
                        };
                        let y = Axis { label: "time until durable", format };
                        let plot = Plot { y, ..plot(scale, &line, &[]) };
                        check_texts(&plot.texts(&plot.frame().expect("two points")));
                    }
                }
            }
        }
    }

    fn check_texts(texts: &[Text]) {
        assert!(texts.len() >= 4, "names and heights");
        let boxes: Vec<_> = texts.iter().map(area).collect();
        for (at, one) in boxes.iter().enumerate() {
            let is_within = one.left >= 0.0 && one.right <= WIDTH && one.top >= 0.0 && one.bottom <= HEIGHT;
            assert!(is_within, "{} at {one:?}", texts[at].content);
            for (later, other) in boxes.iter().enumerate().skip(at + 1) {
                let is_beside = one.right <= other.left || other.right <= one.left;
                let is_apart = is_beside || one.bottom <= other.top || other.bottom <= one.top;
                assert!(is_apart, "{} and {}", texts[at].content, texts[later].content);
            }
        }
    }

    #[derive(Debug)]
    struct Area {
        left: f64,
        right: f64,
        top: f64,
        bottom: f64,
    }

    fn area(text: &Text) -> Area {
        // Letters are 0.55 of their height on average, in the fonts that browsers have.
        let width = text.content.chars().count() as f64 * TEXT * 0.55;
        let left = match text.anchor {
            Anchor::Start => text.x,
            Anchor::Middle => text.x - width / 2.0,
            Anchor::End => text.x - width,
        };
        Area { left, right: left + width, top: text.y - TEXT * 0.75, bottom: text.y + TEXT * 0.25 }
    }
}
