//! A picture of a plot, as SVG.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::{Curve, Plot};
use crate::bench::table::amount;

const SIZE: (u32, u32) = (900, 480);
const FONT: &str = "sans-serif";
/// Okabe's and Ito's, which people who see some colours alike tell apart.
const COLORS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(120, 120, 120),
    RGBColor(204, 121, 167),
];

/// Draws it.
pub(super) fn svg(plot: &Plot) -> Result<String> {
    let values = plot.curves.iter().flat_map(|curve| &curve.points);
    let values: Vec<f64> = values.flat_map(|point| &point.values).copied().collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(most, f64::min);

    match plot.picture.logarithmic {
        true => drawn(plot, (least.max(1e-3) / 1.5..most * 1.5).log_scale()),
        false => drawn(plot, 0.0..most * 1.1),
    }
}

fn drawn<Y>(plot: &Plot, y: Y) -> Result<String>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut text = String::new();
    draw(plot, y, &mut text).map_err(|error| anyhow!("{}: {error}", plot.picture.file))?;
    Ok(text)
}

type Drawing<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Points stand at equal distances, whatever they are.
fn draw<Y>(plot: &Plot, y: Y, text: &mut String) -> Drawing<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let picture = plot.picture;
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;

    let last = picture.xs.len() as f64 - 1.0;
    let x: Range<f64> = -0.3..last + 0.3;
    let mut chart = ChartBuilder::on(&root)
        .caption(picture.title, (FONT, 20))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(66)
        .build_cartesian_2d(x, y)?;

    let label = |at: &f64| {
        let whole = (at - at.round()).abs() < 1e-6;
        let label = picture
            .xs
            .get(at.round() as usize)
            .filter(|_| whole && *at > -0.1);
        label.map_or(String::new(), |label| (*label).to_owned())
    };
    chart
        .configure_mesh()
        .x_labels(picture.xs.len() + 1)
        .x_label_formatter(&label)
        .y_label_formatter(&|value| amount(*value))
        .x_desc(picture.x)
        .y_desc(format!("{}, {}", picture.y, picture.unit))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;

    for (curve, color) in plot.curves.iter().zip(COLORS) {
        chart
            .draw_series(LineSeries::new(medians(curve), color.stroke_width(2)))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(medians(curve).map(|at| Circle::new(at, 3, color.filled())))?;
        chart.draw_series(ranges(curve).map(|bar| PathElement::new(bar, color.stroke_width(1))))?;
    }

    chart
        .configure_series_labels()
        .position(match picture.falls {
            true => SeriesLabelPosition::LowerLeft,
            false => SeriesLabelPosition::UpperLeft,
        })
        .label_font((FONT, 14))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

fn medians(curve: &Curve) -> impl Iterator<Item = (f64, f64)> {
    let points = curve.points.iter().enumerate();
    let measured = points.filter(|(_, point)| !point.values.is_empty());
    measured.map(|(x, point)| (x as f64, point.median()))
}

/// From the least to the most of each point.
fn ranges(curve: &Curve) -> impl Iterator<Item = [(f64, f64); 2]> {
    let points = curve.points.iter().enumerate();
    let measured = points.filter(|(_, point)| point.values.len() > 1);
    measured.map(|(x, point)| {
        let x = x as f64;
        [(x, point.least()), (x, point.most())]
    })
}

#[cfg(test)]
mod tests {
    use super::super::Plot;
    use super::super::{emulated, ways};
    use super::*;

    /// Each picture is a well-formed document that has its curves' names and all labels of x.
    #[test]
    fn pictures_say_what_they_show() {
        let ours = ways::SCHEMES.iter().map(Plot::new);
        let theirs = emulated::SCHEMES.iter().map(Plot::new);
        for mut plot in ours.chain(theirs) {
            let picture = plot.picture;
            for (number, curve) in plot.curves.iter_mut().enumerate() {
                for (x, point) in curve.points.iter_mut().enumerate() {
                    point.values = vec![0.5 + (number * x) as f64, 1.5 + x as f64];
                }
            }

            let text = svg(&plot).unwrap();
            let document = roxmltree::Document::parse(&text).unwrap();
            let said: Vec<_> = document
                .descendants()
                .filter(|node| node.has_tag_name("text"))
                .filter_map(|node| node.text())
                .map(str::trim)
                .collect();
            let names = plot.curves.iter().map(|curve| curve.name);
            for word in names
                .chain(picture.xs.iter().copied())
                .chain([picture.title])
            {
                assert!(said.contains(&word), "{}: {word}: {said:?}", picture.file);
            }
        }
    }
}
