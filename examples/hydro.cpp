// Explicit Lagrangian hydrodynamics of a point blast in one octant of a cube, in the manner of the
// LULESH mini-application: hexahedra that move with the gas, forces gathered from elements to
// nodes, and large temporaries that are allocated and freed in every step.
//
// The scheme is the compatible one of Caramana, Burton, Shashkov and Whalen (J. Comput. Phys. 146,
// 1998): what the corner forces give to the nodes' motion is taken from the elements' internal
// energy, so the total energy stays what it was up to rounding. That is checked, and so are the
// symmetry of the answer under an exchange of the axes, the volumes and their gradients, and, once
// it is resolved, the place of the shock, which is that of the Sedov-Taylor blast wave; and that no
// gas is compressed more than a shock can.
//
//   hydro [elements per side = 30] [steps = 10]
#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "argument.h"
#include "pagelens.h"

namespace {

using Point = std::array<double, 3>;
using Corner = std::array<Point, 8>;  // a vector for each corner of an element

constexpr double gas_gamma = 1.4;
constexpr double quadratic_viscosity = 2.0, linear_viscosity = 0.5;  // von Neumann-Richtmyer
constexpr double hourglass_damping = 0.1;
constexpr double courant = 0.25;
// The shock of a point blast of energy E in a gas of density 1 is at sedov (E t^2)^(1/5) at time t
// (L. I. Sedov, Similarity and Dimensional Methods in Mechanics, 1959; this value for gamma = 1.4).
constexpr double sedov = 1.033;

struct Mesh {
    int side;  // elements per side; corner c of an element stands at (c & 1, c >> 1 & 1, c >> 2)
    std::vector<std::array<std::int32_t, 8>> nodes;                      // of each element
    std::vector<double> mass, energy, volume, pressure, sound, damping;  // of each element
    std::vector<Point> position, velocity, force;                        // of each node
    std::vector<double> node_mass;

    [[nodiscard]] std::int32_t node(int i, int j, int k) const {
        return (k * (side + 1) + j) * (side + 1) + i;
    }
    [[nodiscard]] int element(int i, int j, int k) const { return (k * side + j) * side + i; }
};

double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Point cross(const Point& a, const Point& b) {
    return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

// The six faces, corners in circular order, seen from outside counterclockwise.
constexpr int faces[6][4] = {{0, 4, 6, 2}, {1, 3, 7, 5}, {0, 1, 5, 4},
                             {2, 6, 7, 3}, {0, 2, 3, 1}, {4, 5, 7, 6}};

// Volume of a hexahedron whose faces are each cut into the four triangles around their centre, and
// its gradient with respect to every corner.
double volume_and_gradient(const Corner& x, Corner& gradient) {
    gradient = {};
    double volume = 0.0;
    for (const auto& face : faces) {
        Point centre{};
        for (const int c : face) {
            for (int d = 0; d < 3; ++d) centre[d] += 0.25 * x[c][d];
        }
        for (int s = 0; s < 4; ++s) {
            const int a = face[s], b = face[(s + 1) % 4];
            // A sixth of the triple product (centre, a, b): a tetrahedron with its tip at the
            // origin.
            const Point of_centre = cross(x[a], x[b]), of_a = cross(x[b], centre),
                        of_b = cross(centre, x[a]);
            volume += dot(centre, of_centre) / 6;
            for (int d = 0; d < 3; ++d) {
                gradient[a][d] += of_a[d] / 6;
                gradient[b][d] += of_b[d] / 6;
                for (const int c : face) gradient[c][d] += of_centre[d] / 24;
            }
        }
    }
    return volume;
}

Corner gather(const Mesh& mesh, std::size_t element, const std::vector<Point>& field) {
    Corner result;
    for (int c = 0; c < 8; ++c) result[c] = field[mesh.nodes[element][c]];
    return result;
}

Mesh blast(int side) {
    Mesh mesh;
    mesh.side = side;
    const auto elements = static_cast<std::size_t>(side) * side * side;
    const double edge = 1.0 / side, element_mass = edge * edge * edge;  // density 1
    for (int k = 0; k <= side; ++k) {
        for (int j = 0; j <= side; ++j) {
            for (int i = 0; i <= side; ++i) mesh.position.push_back({i * edge, j * edge, k * edge});
        }
    }
    mesh.velocity.resize(mesh.position.size());
    mesh.force.resize(mesh.position.size());
    mesh.node_mass.resize(mesh.position.size());
    mesh.mass.assign(elements, element_mass);
    mesh.energy.assign(elements, 0.0);
    mesh.energy[0] = 1.0;  // the blast: all the energy in the element at the origin
    for (auto* field : {&mesh.volume, &mesh.pressure, &mesh.sound, &mesh.damping})
        field->resize(elements);
    for (int k = 0; k < side; ++k) {
        for (int j = 0; j < side; ++j) {
            for (int i = 0; i < side; ++i) {
                auto& nodes = mesh.nodes.emplace_back();
                for (int c = 0; c < 8; ++c) {
                    nodes[c] = mesh.node(i + (c & 1), j + (c >> 1 & 1), k + (c >> 2));
                    mesh.node_mass[nodes[c]] += element_mass / 8;
                }
            }
        }
    }
    return mesh;
}

// Pressure and sound speed of an ideal gas and the viscous pressure of elements that are being
// compressed; returns the time step that the Courant condition allows.
double state(Mesh& mesh, const std::vector<Corner>& gradients) {
    double step = 1e-2;
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        const double density = mesh.mass[e] / mesh.volume[e], length = std::cbrt(mesh.volume[e]);
        const Corner velocity = gather(mesh, e, mesh.velocity);
        double rate = 0.0;  // of the volume
        for (int c = 0; c < 8; ++c) rate += dot(gradients[e][c], velocity[c]);
        const double jump = std::abs(rate) / mesh.volume[e] * length;
        mesh.pressure[e] = (gas_gamma - 1) * mesh.energy[e] / mesh.volume[e];
        mesh.sound[e] = std::sqrt(gas_gamma * std::max(mesh.pressure[e], 0.0) / density);
        mesh.damping[e] =
            rate < 0
                ? density * jump * (quadratic_viscosity * jump + linear_viscosity * mesh.sound[e])
                : 0.0;
        const double speed = mesh.sound[e] + 2 * quadratic_viscosity * jump;
        if (speed > 0) step = std::min(step, courant * length / speed);
    }
    return step;
}

// Damps the four motions of the corners that change no volume and no shape of the element to first
// order, and would grow unopposed (Flanagan and Belytschko, Int. J. Numer. Meth. Eng. 17, 1981).
void add_hourglass_force(const Mesh& mesh, std::size_t element, Corner& force) {
    const double area = std::pow(mesh.volume[element], 2.0 / 3.0);
    const double strength = hourglass_damping * mesh.mass[element] / mesh.volume[element] *
                            mesh.sound[element] * area / 8;
    for (const unsigned mode : {3u, 5u, 6u, 7u}) {  // products of two or three of the axes' signs
        std::array<double, 8> sign;
        Point amplitude{};
        for (unsigned c = 0; c < 8; ++c) {
            sign[c] = std::popcount(c & mode) % 2 == 0 ? 1.0 : -1.0;
            const Point& v = mesh.velocity[mesh.nodes[element][c]];
            for (int d = 0; d < 3; ++d) amplitude[d] += sign[c] * v[d];
        }
        for (int c = 0; c < 8; ++c) {
            for (int d = 0; d < 3; ++d) force[c][d] -= strength * sign[c] * amplitude[d];
        }
    }
}

double kinetic(const Mesh& mesh) {
    double energy = 0.0;
    for (std::size_t n = 0; n < mesh.velocity.size(); ++n) {
        energy += 0.5 * mesh.node_mass[n] * dot(mesh.velocity[n], mesh.velocity[n]);
    }
    return energy;
}

double internal(const Mesh& mesh) {
    double energy = 0.0;
    for (const double e : mesh.energy) energy += e;
    return energy;
}

// Returns the time step that was made.
double advance(Mesh& mesh) {
    // The temporaries: 192 bytes an element each, here for one step only.
    std::vector<Corner> gradients(mesh.nodes.size());
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        mesh.volume[e] = volume_and_gradient(gather(mesh, e, mesh.position), gradients[e]);
    }
    const double step = state(mesh, gradients);

    std::fill(mesh.force.begin(), mesh.force.end(), Point{});
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        const double stress = mesh.pressure[e] + mesh.damping[e];
        Corner& force = gradients[e];  // from now on the corners' forces
        for (Point& corner : force) {
            for (double& component : corner) component *= stress;
        }
        add_hourglass_force(mesh, e, force);
        for (int c = 0; c < 8; ++c) {
            for (int d = 0; d < 3; ++d) mesh.force[mesh.nodes[e][c]][d] += force[c][d];
        }
    }

    const std::vector<Point> before = mesh.velocity;
    for (int k = 0; k <= mesh.side; ++k) {
        for (int j = 0; j <= mesh.side; ++j) {
            for (int i = 0; i <= mesh.side; ++i) {
                const std::int32_t n = mesh.node(i, j, k);
                const std::array<int, 3> index{i, j, k};
                for (int d = 0; d < 3; ++d) {
                    if (index[d] == 0) continue;  // a plane of symmetry: no motion across it
                    mesh.velocity[n][d] += step * mesh.force[n][d] / mesh.node_mass[n];
                    mesh.position[n][d] += step * mesh.velocity[n][d];
                }
            }
        }
    }
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        for (int c = 0; c < 8; ++c) {
            const Point &v = before[mesh.nodes[e][c]], &w = mesh.velocity[mesh.nodes[e][c]];
            for (int d = 0; d < 3; ++d)
                mesh.energy[e] -= step * gradients[e][c][d] * 0.5 * (v[d] + w[d]);
        }
    }
    return step;
}

// How far volumes and gradients are from what must hold for a volume V of any shape: it does not
// change when the element is moved, and grows with the third power of its size (Euler's theorem).
double geometry_error(const Mesh& mesh) {
    double error = 0.0;
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        const Corner x = gather(mesh, e, mesh.position);
        Corner gradient;
        const double volume = volume_and_gradient(x, gradient);
        Point sum{};
        double growth = 0.0;
        for (int c = 0; c < 8; ++c) {
            for (int d = 0; d < 3; ++d) sum[d] += gradient[c][d];
            growth += dot(gradient[c], x[c]);
        }
        const double area = std::pow(volume, 2.0 / 3.0);
        error = std::max({error, std::sqrt(dot(sum, sum)) / area, std::abs(growth / volume - 3)});
    }
    return error;
}

double total_volume(const Mesh& mesh) {
    double volume = 0.0;
    Corner gradient;
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        volume += volume_and_gradient(gather(mesh, e, mesh.position), gradient);
    }
    return volume;
}

// A single element that expands into nothing: as in any gas without shocks e V^(gamma - 1) stays
// what it was, whatever drives the expansion. How far it is from that, relatively, when the volume
// has grown eightfold.
double adiabat_error() {
    Mesh gas = blast(1);
    for (int step = 0; step < 1000 && total_volume(gas) < 8; ++step) advance(gas);
    return std::abs(internal(gas) * std::pow(total_volume(gas), gas_gamma - 1) - 1.0);
}

struct Densest {
    double density = 0.0, radius = 0.0;  // its distance from the origin
};

// Where the gas is densest: just behind the shock.
Densest densest(const Mesh& mesh) {
    Densest result;
    Corner gradient;
    for (std::size_t e = 0; e < mesh.nodes.size(); ++e) {
        const Corner x = gather(mesh, e, mesh.position);
        const double density = mesh.mass[e] / volume_and_gradient(x, gradient);
        if (density <= result.density) continue;
        Point centre{};
        for (const Point& corner : x) {
            for (int d = 0; d < 3; ++d) centre[d] += corner[d] / 8;
        }
        result = {density, std::sqrt(dot(centre, centre))};
    }
    return result;
}

}  // namespace

int main(int argc, char** argv) {
    // As at full size: every temporary is a mapping of its own, handed back when it is freed. (The
    // default threshold would rise to the size of the first temporary freed.)
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    Mesh mesh = blast(argument(argc, argv, 1, 30, 500, "elements per side"));
    const int steps = argument(argc, argv, 2, 10, 100000, "steps");

    const double volume_error = std::abs(total_volume(mesh) - 1.0);
    double time = 0.0;
    pagelens_region_begin("steps");
    for (int step = 0; step < steps; ++step) time += advance(mesh);
    pagelens_region_end("steps");

    const double drift = std::abs(internal(mesh) + kinetic(mesh) - 1.0);
    double asymmetry = 0.0;
    for (int k = 0; k < mesh.side; ++k) {
        for (int j = 0; j < mesh.side; ++j) {
            for (int i = 0; i < mesh.side; ++i) {
                const double one = mesh.energy[mesh.element(i, j, k)],
                             other = mesh.energy[mesh.element(j, k, i)];
                asymmetry = std::max(asymmetry, std::abs(one - other));
            }
        }
    }
    const double geometry = std::max(volume_error, geometry_error(mesh));
    // An octant has an eighth of the energy. The mesh shows the shock once it is two elements away,
    // to half an element, until it comes near the outer faces.
    const double expected = sedov * std::pow(8.0 * time * time, 0.2), edge = 1.0 / mesh.side;
    const bool resolved = expected >= 2 * edge && expected <= 0.9;
    const Densest shock = densest(mesh);
    const bool in_place = !resolved || std::abs(shock.radius - expected) <= edge / 2;
    // However strong, a shock does not compress an ideal gas more; and none leaves it colder.
    const bool compressed = shock.density <= (gas_gamma + 1) / (gas_gamma - 1);
    const bool warm = *std::min_element(mesh.energy.begin(), mesh.energy.end()) >= -1e-10;
    const double adiabat = adiabat_error();
    const bool ok = time > 0 && drift <= 1e-10 && asymmetry <= 1e-10 && geometry <= 1e-8 &&
                    adiabat <= 5e-3 && in_place && compressed && warm;
    std::printf(
        "hydro: %d^3 elements, %d steps, drift %.1e, asymmetry %.1e, geometry %.1e, adiabat "
        "%.1e, shock ",
        mesh.side, steps, drift, asymmetry, geometry, adiabat);
    if (resolved) {
        std::printf("at %.3f (%.3f): %s\n", shock.radius, expected, ok ? "ok" : "FAILED");
    } else {
        std::printf("not resolved: %s\n", ok ? "ok" : "FAILED");
    }
    return ok ? 0 : 1;
}
